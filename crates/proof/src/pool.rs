//! How fast a page pool hands out and takes back, against the kernel and against other allocators,
//! in turns; and what it holds meanwhile.
//!
//! The work is that of page_fault1 of will-it-scale: each thread takes pages, touches each once and
//! frees them all, again and again.

mod cells;
mod course;
mod crew;
mod ours;
#[cfg(feature = "peers")]
mod peers;
mod source;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_model::CpuId;
use nodeward_policy::pcp::Tuning;
use serde::Serialize;

pub use cells::{PoolCell, Ratio};
pub use course::{Course, Look, PeriodVisits, PureFlow};

use crate::{Error, Progress};

/// Who hands out pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Contender {
    /// mmap, touch, munmap.
    Kernel,
    /// The allocator of that name, in its own words a general purpose one.
    Mimalloc,
    /// The same.
    Jemalloc,
    /// A page pool whose lists keep their length.
    PoolFixed,
    /// One whose lists are as long as allocations and frees are deep.
    PoolDepth,
    /// One whose lists grow when they are empty or full.
    PoolEvents,
}

impl Contender {
    /// All, in the order of tables.
    pub const ALL: [Self; 6] = [
        Self::Kernel,
        Self::Mimalloc,
        Self::Jemalloc,
        Self::PoolFixed,
        Self::PoolDepth,
        Self::PoolEvents,
    ];

    /// Those that others are measured against.
    pub const MEASURES: [Self; 3] = [Self::Kernel, Self::Mimalloc, Self::Jemalloc];

    /// As it is called in output.
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

    /// How the pool is tuned, if it is one.
    pub fn tuning(self) -> Option<Tuning> {
        match self {
            Self::Kernel | Self::Mimalloc | Self::Jemalloc => None,
            Self::PoolFixed => Some(Tuning::Fixed),
            Self::PoolDepth => Some(Tuning::Depth),
            Self::PoolEvents => Some(Tuning::Events),
        }
    }

    /// Whether this program has it.
    pub fn is_built_in(self) -> bool {
        !matches!(self, Self::Mimalloc | Self::Jemalloc) || cfg!(feature = "peers")
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Contender {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|contender| contender.name() == text);
        found.ok_or_else(|| format!("expected one of {}", names()))
    }
}

/// What is to be measured of pools.
#[derive(Clone, Debug)]
pub struct PoolPlan {
    /// What each thread takes at a time.
    pub bytes: usize,
    /// Numbers of threads.
    pub threads: Vec<u32>,
    /// Orders of the runs.
    pub orders: Vec<u32>,
    /// Whether runs read as zero.
    pub zeroed: Vec<bool>,
    /// Whether pools have huge pages for runs of all orders, and not only for longer ones than a
    /// page.
    pub huge: bool,
    /// Who takes part.
    pub contenders: Vec<Contender>,
    /// How long each number is measured.
    pub time: Duration,
    /// In so many turns.
    pub rounds: u32,
    /// Whether pools are looked at over time.
    pub over_time: bool,
    /// Whether threads that only allocate, beside others that only free, are looked at.
    pub pure: bool,
    /// The period of the pools that are looked at so.
    pub period: Duration,
}

/// What was measured of pools.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PoolReport {
    /// Contenders that this program was built without.
    pub not_built_in: Vec<Contender>,
    /// What two reads of the clock take, which is part of every latency: the median.
    pub clock_ns: u64,
    /// The table.
    pub cells: Vec<PoolCell>,
    /// Pools over time.
    pub courses: Vec<Course>,
    /// Pools between threads that only allocate and threads that only free.
    pub pure: Vec<PureFlow>,
}

impl PoolReport {
    /// Bytes that should have been zero and were not.
    pub fn dirty_bytes(&self) -> u64 {
        self.cells.iter().map(|cell| cell.dirty_bytes).sum()
    }
}

/// What all parts of a measurement use.
struct Bench<'a> {
    plan: &'a PoolPlan,
    progress: &'a Progress,
    machine: Linux,
    cpus: Vec<CpuId>,
    contenders: Vec<Contender>,
}

/// Measures all that is planned. A wish to end ends it early, with what was measured until then.
///
/// # Errors
/// If there is no memory for it, or a pool refuses.
pub fn measure_pool(plan: &PoolPlan, progress: &Progress) -> Result<PoolReport, Error> {
    let machine = Linux::open();
    let (contenders, not_built_in) =
        plan.contenders.iter().partition(|contender| contender.is_built_in());
    let cpus = machine.usable_cpus()?.iter().collect();
    let bench = Bench { plan, progress, machine, cpus, contenders };
    progress.expect(u64::try_from(bench.expected().as_millis()).unwrap_or(u64::MAX));
    let mut report = PoolReport { not_built_in, ..PoolReport::default() };
    report.clock_ns = cells::clock_ns();
    bench.cells(&mut report.cells)?;
    bench.courses(&mut report)?;
    Ok(report)
}

impl Bench<'_> {
    /// Whether somebody wants it to end; then nothing new is begun.
    fn is_over(&self) -> bool {
        self.progress.cancel().is_cancelled()
    }

    fn pools(&self) -> impl Iterator<Item = Contender> {
        self.contenders.iter().copied().filter(|contender| contender.tuning().is_some())
    }

    /// How long all of it takes, about.
    fn expected(&self) -> Duration {
        let plan = self.plan;
        let groups = plan.threads.len() * plan.orders.len() * plan.zeroed.len();
        let cells = plan.time * u32::try_from(groups * self.contenders.len()).unwrap_or(u32::MAX);
        let pools = u32::try_from(self.pools().count()).unwrap_or(0);
        cells + plan.period * pools * course::periods(plan)
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
        for contender in Contender::ALL {
            assert_eq!(contender.name().parse(), Ok(contender));
        }
        let refused = "malloc".parse::<Contender>().unwrap_err();
        assert!(refused.contains("jemalloc, pool-fixed"), "{refused}");
    }
}
