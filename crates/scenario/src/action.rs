//! Schedulers, and actions on programs while they run.

use nodeward_model::{Cpumask, NodeId};

/// The scheduler of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulerKind {
    /// Fair, and blind to memory, as Linux without NUMA balancing.
    #[default]
    NumaUnaware,
    /// Fair, and prefers CPUs of a task's home node as long as no other CPU stays idle for it.
    HomeAware,
    /// As sched/numa of 2012: homes are assigned when processes begin, and rebalanced every two
    /// seconds.
    SchedNuma2012,
}

/// An action at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// Its time, in virtual nanoseconds.
    pub at_ns: u64,
    /// The name of the workload whose processes it concerns; empty for actions on the machine.
    pub workload: String,
    /// The action.
    pub kind: ActionKind,
}

/// The kinds of actions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionKind {
    /// Moves all memory of a workload from a node to another one, process by process.
    Migrate {
        /// The source node.
        from: NodeId,
        /// The destination node.
        to: NodeId,
        /// Number of ways back and forth; 1 for there only.
        times: u32,
    },
    /// Marks its pages to move to the node of the next access.
    MigrateOnFault,
    /// Sets another home for its processes.
    Home {
        /// The node.
        to: NodeId,
    },
    /// Ends its processes.
    Kill,
    /// Lets its processes fork: each child shares all pages until one is written to.
    Fork {
        /// Lifetime of a child, in nanoseconds.
        for_ns: u64,
    },
    /// Freezes its processes, as cgroups do.
    Freeze {
        /// Duration, in nanoseconds.
        for_ns: u64,
    },
    /// Takes CPUs offline.
    CpusOff {
        /// The CPUs.
        cpus: Cpumask,
    },
    /// Brings CPUs back online.
    CpusOn {
        /// The CPUs.
        cpus: Cpumask,
    },
    /// Takes the memory of a node offline, once its pages have left it.
    MemoryOff {
        /// The node.
        node: NodeId,
    },
    /// Brings the memory of a node back online, empty.
    MemoryOn {
        /// The node.
        node: NodeId,
    },
}

impl ActionKind {
    /// Returns whether it is an action on the machine rather than on a workload.
    pub fn targets_machine(&self) -> bool {
        use ActionKind::{CpusOff, CpusOn, MemoryOff, MemoryOn};
        matches!(self, CpusOff { .. } | CpusOn { .. } | MemoryOff { .. } | MemoryOn { .. })
    }
}
