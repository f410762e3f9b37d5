//! The description of a run: tasks, and their balancer.

use nodeward_model::NodeId;
use serde::{Deserialize, Serialize};

/// A thread of `nodeward-stream` with scattered pages reads one in this number of the pages of
/// other threads, after each pass through its own.
pub const FOREIGN_PAGE_STRIDE: usize = 8;

/// One run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSpec {
    /// The tasks.
    pub tasks: Vec<TaskSpec>,
    /// The balancer.
    pub balancer: BalancerSpec,
    /// Time for which the balancer runs before the tasks begin, in milliseconds.
    pub balancer_lead_ms: u64,
    /// Interval of the samples of counters, in milliseconds.
    pub sample_interval_ms: u64,
}

/// A process, or many short ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Program and arguments. The program is `nodeward-stream` or has the same output.
    pub command: Vec<String>,
    /// The process is confined to this node's CPUs when the run begins, and released shortly after.
    pub start_node: Option<NodeId>,
    /// Additional arguments of a process that is placed by hand.
    pub manual_arguments: Vec<String>,
    /// If above zero: run this many short processes one after the other; they do not wait to begin.
    pub sequential_processes: u32,
}

/// The commands that start and stop a balancer.
///
/// In commands the word `{pids}` stands for the tasks' process ids, one argument each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BalancerSpec {
    /// Its name.
    pub name: String,
    /// kernel.numa_balancing is on during the run.
    pub numa_balancing: bool,
    /// Tasks get the arguments that place them by hand.
    pub is_manual: bool,
    /// Content of nodeward's settings file of the system; if empty, there is none.
    pub settings: String,
    /// Command that runs to its end before: the emulator translates code when it first runs.
    pub warm_up_command: Vec<String>,
    /// Command that starts it, when all tasks are ready. It may stay or go to the background.
    pub start_command: Vec<String>,
    /// Name of its processes, whose CPU time is its cost.
    pub process_name: String,
    /// Its log file; if empty, its output is the log.
    pub log_file: String,
    /// Command that ends it after the run; if empty, the started process gets SIGTERM.
    pub stop_command: Vec<String>,
    /// Command that reports how many pages it moved: prints JSON in which the numbers called
    /// `moved_pages` add up to that. Runs after the end.
    pub report_command: Vec<String>,
}
