//! A scenario, as data.

use nodeward_model::GroupSpec;

use crate::{Action, FaultInjection, MachineSpec, SchedulerKind, Workload};

/// The sections of a report, as `report` names them, in their usual order.
pub const REPORT: [&str; 8] =
    ["memory", "workloads", "nodes", "actions", "time", "latencies", "counters", "curves"];

/// A machine, its workloads, and the simulated time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Its name in messages and file names.
    pub name: String,
    /// Its purpose, in a sentence; may be empty.
    pub about: String,
    /// The hardware and its costs.
    pub machine: MachineSpec,
    /// The workloads; empty for a machine without programs.
    pub workloads: Vec<Workload>,
    /// Groups of threads and memory, for nodeward.
    pub groups: Vec<GroupSpec>,
    /// The scheduler, which places threads.
    pub scheduler: SchedulerKind,
    /// Whether the kernel balances by hint faults (kernel.numa_balancing = 1).
    pub numa_balancing: bool,
    /// Actions on the programs while they run, in order of time.
    pub actions: Vec<Action>,
    /// Injected faults. `None` if there are none; then the state that checkers of contents need is
    /// not kept either.
    pub faults: Option<FaultInjection>,
    /// Simulated time, in virtual nanoseconds.
    pub time_ns: u64,
    /// Whether it is the work of all processes that ends the run, and `time_ns` a limit of it.
    pub until_done: bool,
    /// Interval between points of the time series of a report, in virtual nanoseconds.
    pub sample_ns: u64,
    /// The sections of the report, of [`REPORT`], in this order; empty for everything that
    /// happened.
    pub report: Vec<String>,
}
