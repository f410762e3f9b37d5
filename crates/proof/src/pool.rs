//! Speed and memory use of page pools, against the kernel and other allocators in alternation.
//!
//! The work is that of page_fault1 of will-it-scale: each thread repeatedly takes pages, touches
//! each once and frees them all.

#[cfg(feature = "peers")]
mod c_allocators;
mod cells;
mod contenders;
mod pinned_threads;
mod pool_bench;
mod timeline;
mod workload;

use std::time::Duration;

use nodeward_linux::Linux;
use nodeward_machine::Machine;
use serde::Serialize;

pub use cells::{PoolCell, Ratio};
pub use contenders::PoolContender;
pub use pool_bench::PoolPlan;
pub use timeline::{PeriodVisits, PoolSample, PoolTimeline, PureFlow};

use crate::{BenchProgress, Error};
use pool_bench::PoolBench;

/// The results of a pool benchmark.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PoolReport {
    /// Contenders that this program was built without.
    pub not_built_in: Vec<PoolContender>,
    /// Median time of two reads of the clock, which is part of every latency.
    pub clock_ns: u64,
    /// The table.
    pub cells: Vec<PoolCell>,
    /// Pools over time.
    #[serde(rename = "courses")]
    pub timelines: Vec<PoolTimeline>,
    /// Pools between threads that only allocate and threads that only free.
    pub pure: Vec<PureFlow>,
}

impl PoolReport {
    /// Returns the number of bytes that should have been zero and were not.
    pub fn dirty_bytes(&self) -> u64 {
        self.cells.iter().map(|cell| cell.dirty_bytes).sum()
    }
}

/// Measures everything in the plan. A request to cancel ends it early, with the results so far.
///
/// # Errors
/// If there is no memory for it, or a pool refuses.
pub fn measure_pool(plan: &PoolPlan, progress: &BenchProgress) -> Result<PoolReport, Error> {
    let machine = Linux::open();
    let (contenders, not_built_in) =
        plan.contenders.iter().partition(|contender| contender.is_built_in());
    let cpus = machine.usable_cpus()?.iter().collect();
    let bench = PoolBench { plan, progress, machine, cpus, contenders };
    progress.set_total(u64::try_from(bench.expected().as_millis()).unwrap_or(u64::MAX));
    let mut report = PoolReport { not_built_in, ..PoolReport::default() };
    report.clock_ns = cells::clock_ns();
    bench.cells(&mut report.cells)?;
    report.timelines = bench.timelines()?;
    report.pure = bench.pure_flows()?;
    Ok(report)
}

impl PoolBench<'_> {
    /// Returns the approximate total time.
    fn expected(&self) -> Duration {
        let plan = self.plan;
        let groups = plan.threads.len() * plan.orders.len() * plan.zeroed.len();
        let cells = plan.time * u32::try_from(groups * self.contenders.len()).unwrap_or(u32::MAX);
        let pools = u32::try_from(self.pools().count()).unwrap_or(0);
        cells + plan.period * pools * timeline::periods(plan)
    }
}
