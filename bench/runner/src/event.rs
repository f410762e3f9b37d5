//! The output of a run: one line of JSON per event.

use serde::{Deserialize, Serialize};

/// One line. Times are in milliseconds since the run began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
pub enum RunEvent {
    /// All tasks and the balancer are ready; the run begins now.
    Begin,
    /// A sample of the counters.
    Look(CounterSample),
    /// The first task of all has done all its passes.
    FirstEnd,
    /// All tasks have done all their passes, and ended.
    End(RunEnd),
}

/// A sample of the guest kernel's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterSample {
    /// Time of the sample.
    pub at_ms: u64,
    /// Number of passes of all tasks together.
    pub passes: u64,
    /// Counts of moves and of CPU time.
    pub overhead: RunOverhead,
}

/// The cost of the run since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunOverhead {
    /// Base pages that changed nodes, whatever the cause (`pgmigrate_success`).
    pub migrated: u64,
    /// Those of `migrated` that the kernel's balancing moved (`numa_pages_migrated`).
    pub numa_migrated: u64,
    /// Hint faults of the kernel's balancing.
    pub hint_faults: u64,
    /// CPU time of the balancer's processes, in microseconds.
    pub balancer_us: u64,
    /// System time of the tasks, in microseconds; it includes the kernel's balancing.
    pub system_us: u64,
    /// User time of the tasks, in microseconds.
    pub user_us: u64,
}

/// The end of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    /// The last sample, when the last task had done its passes.
    pub look: CounterSample,
    /// Duration of each task; short ones in a row count as one.
    pub tasks_ms: Vec<u64>,
    /// Words that did not hold the value last written. More than zero is an error of the program
    /// that moved the memory.
    pub mismatches: u64,
    /// Base pages that had changed nodes when the balancer had ended, after the last sample.
    pub migrated: u64,
    /// Pages that the balancer reports as moved; `None` if it was not asked or does not report it.
    pub told: Option<u64>,
    /// The output of the balancer, or its own log file.
    pub log: String,
}
