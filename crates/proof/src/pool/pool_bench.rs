//! The plan of a pool benchmark, and what its measurements have in common.

use std::time::Duration;

use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_model::CpuId;

use super::contenders::PoolContender;
use super::workload::PassLoad;
use crate::BenchProgress;

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

/// The common parts of a measurement.
pub struct PoolBench<'a> {
    pub plan: &'a PoolPlan,
    pub progress: &'a BenchProgress,
    pub machine: Linux,
    pub cpus: Vec<CpuId>,
    pub contenders: Vec<PoolContender>,
}

impl PoolBench<'_> {
    /// Returns whether the end is requested; then nothing new begins.
    pub fn is_cancelled(&self) -> bool {
        self.progress.cancel().is_cancelled()
    }

    pub fn pools(&self) -> impl Iterator<Item = PoolContender> {
        self.contenders.iter().copied().filter(|contender| contender.tuning().is_some())
    }

    pub fn load(&self, order: u32, zeroed: bool) -> PassLoad {
        PassLoad { bytes: self.plan.bytes, order, zeroed, page_bytes: self.page_bytes() }
    }

    pub fn page_bytes(&self) -> usize {
        self.machine.page_bytes() as usize
    }

    pub fn advance(&self, by: Duration) {
        self.progress.advance(u64::try_from(by.as_millis()).unwrap_or(0));
    }
}
