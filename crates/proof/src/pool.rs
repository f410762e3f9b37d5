//! Speed and memory use of page pools, against the kernel and other allocators in alternation.
//!
//! The work is that of page_fault1 of will-it-scale: each thread repeatedly takes pages, touches
//! each once and frees them all.

#[cfg(feature = "peers")]
mod c_allocators;
mod cells;
mod contenders;
mod pinned_threads;
mod timeline;
mod workload;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_model::CpuId;
use nodeward_policy::pcp::TunerKind;
use serde::Serialize;

pub use cells::{PoolCell, Ratio};
pub use timeline::{PeriodVisits, PoolSample, PoolTimeline, PureFlow};

use crate::{BenchProgress, Error};

/// An allocator that takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PoolContender {
    /// The kernel: mmap, touch, munmap.
    Kernel,
    /// mimalloc, which calls itself a general purpose allocator.
    Mimalloc,
    /// jemalloc, likewise.
    Jemalloc,
    /// A page pool whose lists have a fixed length.
    PoolFixed,
    /// A page pool whose lists follow the depth of allocations and frees.
    PoolDepth,
    /// A page pool whose lists grow when they run empty or full.
    PoolEvents,
}

impl PoolContender {
    /// All contenders, in the order of tables.
    pub const ALL: [Self; 6] = [
        Self::Kernel,
        Self::Mimalloc,
        Self::Jemalloc,
        Self::PoolFixed,
        Self::PoolDepth,
        Self::PoolEvents,
    ];

    /// The contenders that others are compared with.
    pub const REFERENCES: [Self; 3] = [Self::Kernel, Self::Mimalloc, Self::Jemalloc];

    /// Returns the name in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Mimalloc => "mimalloc",
            Self::Jemalloc => "jemalloc",
            Self::PoolFixed => "pool-fixed",
            Self::PoolDepth => "pool-depth",
            Self::PoolEvents => "pool-events",
        }
    }

    /// Returns the tuning of a pool; `None` for other allocators.
    pub fn tuning(self) -> Option<TunerKind> {
        match self {
            Self::Kernel | Self::Mimalloc | Self::Jemalloc => None,
            Self::PoolFixed => Some(TunerKind::Fixed),
            Self::PoolDepth => Some(TunerKind::Depth),
            Self::PoolEvents => Some(TunerKind::Events),
        }
    }

    /// Returns whether this program includes it.
    pub fn is_built_in(self) -> bool {
        !matches!(self, Self::Mimalloc | Self::Jemalloc) || cfg!(feature = "peers")
    }
}

impl fmt::Display for PoolContender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for PoolContender {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|contender| contender.name() == text);
        found.ok_or_else(|| format!("expected one of {}", names()))
    }
}

/// The plan of a pool benchmark.
#[derive(Clone, Debug)]
pub struct PoolPlan {
    /// Bytes that each thread takes in a pass.
    pub bytes: usize,
    /// Numbers of threads.
    pub threads: Vec<u32>,
    /// Orders of the runs.
    pub orders: Vec<u32>,
    /// Settings of `zeroed` to measure: runs must read as zero, or need not.
    pub zeroed: Vec<bool>,
    /// Use huge pages for runs of all orders, not only for those longer than one page.
    pub huge: bool,
    /// Contenders.
    pub contenders: Vec<PoolContender>,
    /// Time per number.
    pub time: Duration,
    /// Number of rounds that this time is divided into.
    pub rounds: u32,
    /// Observe pools over time.
    pub over_time: bool,
    /// Observe threads that only allocate, beside others that only free.
    pub pure: bool,
    /// Tuning period of the pools that are observed.
    pub period: Duration,
}

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
    pub courses: Vec<PoolTimeline>,
    /// Pools between threads that only allocate and threads that only free.
    pub pure: Vec<PureFlow>,
}

impl PoolReport {
    /// Returns the number of bytes that should have been zero and were not.
    pub fn dirty_bytes(&self) -> u64 {
        self.cells.iter().map(|cell| cell.dirty_bytes).sum()
    }
}

/// The common parts of a measurement.
struct PoolBench<'a> {
    plan: &'a PoolPlan,
    progress: &'a BenchProgress,
    machine: Linux,
    cpus: Vec<CpuId>,
    contenders: Vec<PoolContender>,
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
    bench.measure_timelines(&mut report)?;
    Ok(report)
}

impl PoolBench<'_> {
    /// Returns whether the end is requested; then nothing new begins.
    fn is_cancelled(&self) -> bool {
        self.progress.cancel().is_cancelled()
    }

    fn pools(&self) -> impl Iterator<Item = PoolContender> {
        self.contenders.iter().copied().filter(|contender| contender.tuning().is_some())
    }

    /// Returns the approximate total time.
    fn expected(&self) -> Duration {
        let plan = self.plan;
        let groups = plan.threads.len() * plan.orders.len() * plan.zeroed.len();
        let cells = plan.time * u32::try_from(groups * self.contenders.len()).unwrap_or(u32::MAX);
        let pools = u32::try_from(self.pools().count()).unwrap_or(0);
        cells + plan.period * pools * timeline::periods(plan)
    }

    fn page_bytes(&self) -> usize {
        self.machine.page_bytes() as usize
    }

    fn advance(&self, by: Duration) {
        self.progress.advance(u64::try_from(by.as_millis()).unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contenders_have_names() {
        for contender in PoolContender::ALL {
            assert_eq!(contender.name().parse(), Ok(contender));
        }
        let refused = "malloc".parse::<PoolContender>().unwrap_err();
        assert!(refused.contains("jemalloc, pool-fixed"), "{refused}");
    }
}
