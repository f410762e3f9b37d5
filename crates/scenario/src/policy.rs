//! What decides where threads run, and what is done while they run.

use nodeward_model::{Cpumask, NodeId};

/// Which scheduler the machine has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// Fair, and blind to memory, as Linux without NUMA balancing.
    #[default]
    Blind,
    /// Fair, and prefers CPUs of a task's home node as long as no other CPU stays idle for it.
    Home,
    /// The same as sched/numa of 2012 has it: homes are given when processes begin, and evened out
    /// every two seconds.
    Numad,
}

/// Something that is done at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Action {
    /// When, in virtual nanoseconds.
    pub at_ns: u64,
    /// To the processes of which workload, by its name; empty for what is done to the machine.
    pub workload: String,
    /// What.
    pub kind: ActionKind,
}

/// What may be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActionKind {
    /// Move all its memory from a node to another one, process by process.
    Migrate {
        /// The node to leave.
        from: NodeId,
        /// The node to go to.
        to: NodeId,
        /// Back and forth so often; 1 for there only.
        times: u32,
    },
    /// Let its pages move to whoever touches them next.
    MigrateOnFault,
    /// Give its processes another home.
    Home {
        /// The node.
        to: NodeId,
    },
    /// End its processes.
    Kill,
    /// Let its processes fork: each child shares all pages until one of them is written to.
    Fork {
        /// How long a child lives, in nanoseconds.
        for_ns: u64,
    },
    /// Freeze its processes, as control groups do.
    Freeze {
        /// How long, in nanoseconds.
        for_ns: u64,
    },
    /// Take CPUs away from the machine.
    CpusOff {
        /// Which.
        cpus: Cpumask,
    },
    /// Give CPUs back to it.
    CpusOn {
        /// Which.
        cpus: Cpumask,
    },
    /// Take the memory of a node away, once its pages have left it.
    MemoryOff {
        /// Which.
        node: NodeId,
    },
    /// Give it back, empty.
    MemoryOn {
        /// Which.
        node: NodeId,
    },
}

impl ActionKind {
    /// Whether it is done to the machine rather than to a workload.
    pub fn is_of_machine(&self) -> bool {
        use ActionKind::{CpusOff, CpusOn, MemoryOff, MemoryOn};
        matches!(self, CpusOff { .. } | CpusOn { .. } | MemoryOff { .. } | MemoryOn { .. })
    }
}
