//! What is to be run: tasks, and what balances them.

use nodeward_model::NodeId;
use serde::{Deserialize, Serialize};

/// One run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Play {
    /// What runs.
    pub tasks: Vec<Task>,
    /// What balances it.
    pub balancer: Balancer,
    /// How long that runs before the tasks begin, in milliseconds.
    pub lead_ms: u64,
    /// The time between two looks at counters, in milliseconds.
    pub look_ms: u64,
}

/// A process, or many short ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Program and arguments. The program is `nodeward-stream` or speaks as it does.
    pub command: Vec<String>,
    /// The process is on this node's CPUs when the run begins, and free to go from then on.
    pub starts_on: Option<NodeId>,
    /// Further arguments for one whom a hand has placed.
    pub by_hand: Vec<String>,
    /// Above zero: so many short processes one after the other; they wait for nobody.
    pub in_a_row: u32,
}

/// How something that balances is started and stopped.
///
/// In commands the word `{pids}` stands for the tasks' process numbers, one argument each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balancer {
    /// What to call it.
    pub name: String,
    /// Whether kernel.numa_balancing is on during the run.
    pub kernel: bool,
    /// Whether tasks get the arguments that place them by hand.
    pub by_hand: bool,
    /// What is run to its end before: the emulator translates what runs for the first time.
    pub before: Vec<String>,
    /// What starts it, when all tasks are ready. It may stay or go to the background.
    pub start: Vec<String>,
    /// What its processes are called; their CPU time is what it costs.
    pub process: String,
    /// The file that it writes its log to; if empty, what it prints is its log.
    pub log: String,
    /// What ends it after the run; if empty, SIGTERM to what was started.
    pub stop: Vec<String>,
    /// What tells how many pages it moved: prints JSON in which the numbers called `moved_pages`
    /// add up to that. Runs after the end.
    pub tells: Vec<String>,
}
