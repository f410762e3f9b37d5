//! What is told while a play runs: a line of JSON each.

use serde::{Deserialize, Serialize};

/// One line. Times are in milliseconds since the run began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
pub enum Line {
    /// All tasks and the balancer are ready; the run begins now.
    Begin,
    /// A look at the counters.
    Look(Look),
    /// A task has done all its passes, the first of all.
    FirstEnd,
    /// All tasks have done all their passes, and ended.
    End(Curtain),
}

/// What the counters say that the guest's own kernel keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    /// When.
    pub at_ms: u64,
    /// Passes that all tasks have done together.
    pub passes: u64,
    /// What moving has come to.
    pub burden: Burden,
}

/// What the run has cost since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Burden {
    /// Base pages that changed nodes, whoever asked for it (`pgmigrate_success`).
    pub migrated: u64,
    /// Those of them that the kernel's balancing moved (`numa_pages_migrated`).
    pub numa_migrated: u64,
    /// Faults that the kernel's balancing caused in order to learn who touches what.
    pub hint_faults: u64,
    /// CPU time of the balancer's processes, in microseconds.
    pub balancer_us: u64,
    /// CPU time that tasks spent in the kernel, in microseconds: its balancing works there.
    pub system_us: u64,
    /// CPU time that tasks spent in themselves, in microseconds.
    pub user_us: u64,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Curtain {
    /// The last look, when the last task had done its passes.
    pub look: Look,
    /// How long each task took; short ones in a row count as one.
    pub tasks_ms: Vec<u64>,
    /// Words that did not hold what was written there last. More than zero is a fault of whoever
    /// moved the memory.
    pub mismatches: u64,
    /// Base pages that had changed nodes when the balancer had ended, which is after the last look.
    pub migrated: u64,
    /// Pages that the balancer says it moved; none if it was not asked or does not say.
    pub told: Option<u64>,
    /// What the balancer printed, or wrote to its own log.
    pub log: String,
}
