//! Sources of memory accesses: which thread used which page, from which CPU.

use std::fmt;

use nodeward_model::{AccessSample, Pid};
use serde::{Deserialize, Serialize};

use crate::Result;

/// A way to observe accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessSourceKind {
    /// A timer interrupts each CPU. The addresses are computed from the registers of the
    /// interrupted thread and the instructions around it. Samples are weighted by time: slow
    /// accesses are seen more often.
    Registers,
    /// Write faults after soft-dirty bits were cleared: each page once a round. Sees no reads.
    SoftDirty,
    /// Hint faults of the kernel's NUMA balancing, while that is on: each page once a scan.
    Faults,
    /// DAMON samples regions. Knows no thread, no CPU, no kind.
    Damon,
    /// Memory samples of a PMU (PEBS, IBS, SPE), or counts from elsewhere.
    Perf,
}

impl AccessSourceKind {
    /// Its name in options and output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Registers => "registers",
            Self::SoftDirty => "soft-dirty",
            Self::Faults => "faults",
            Self::Damon => "damon",
            Self::Perf => "perf",
        }
    }
}

impl fmt::Display for AccessSourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The state of a source on a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AccessSourceStatus {
    /// The source.
    pub kind: AccessSourceKind,
    /// `None` if it works here; else the reason why not, and the remedy, in a line.
    pub obstacle: Option<String>,
    /// The accesses that it cannot see, in a line.
    pub blind_to: &'static str,
    /// Its cost, and who pays it, in a line.
    pub price: &'static str,
}

/// The processes to observe, and the sampling rate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessSampling {
    /// The processes, in ascending order; none stops the source.
    pub pids: Vec<Pid>,
    /// Maximum number of samples per second on each CPU that runs them. A source without a rate
    /// ignores it.
    pub rate_hz: u32,
}

/// The accesses of an interval, and counts of those that are missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessBatch {
    /// The accesses, in no order.
    pub samples: Vec<AccessSample>,
    /// Samples of the wanted processes without an address.
    pub without_address: u64,
    /// Samples that were lost: a full buffer, or a throttled event.
    pub lost: u64,
    /// Threads of the wanted processes that are not observed: a limit of the machine is reached.
    pub threads_unseen: u64,
    /// CPU time that the source itself took, in nanoseconds.
    pub cpu_ns: u64,
    /// The time of its thread that each sample stands for, in nanoseconds. `None` if a sample is a
    /// count of accesses.
    pub sample_ns: Option<u64>,
}

/// An open source of accesses. Dropping it stops it, and leaves nothing behind.
pub trait AccessSource: Send {
    /// Its kind.
    fn kind(&self) -> AccessSourceKind;

    /// Observes these processes from now on, and no others. Processes that exit are left out.
    ///
    /// # Errors
    /// If none of them can be observed, with what is missing; then it observes none.
    fn observe(&mut self, sampling: &AccessSampling) -> Result<()>;

    /// Takes the accesses since the last call. Bounded: what does not fit counts as lost.
    ///
    /// # Errors
    /// If the source ended for good.
    fn take(&mut self) -> Result<AccessBatch>;
}
