//! Memory accesses, as counters, samples and trackers report them.

use crate::{CpuId, NodeId, Pid};

/// The origin of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Accessor {
    /// Some CPU of this node.
    Node(NodeId),
    /// This CPU.
    Cpu(CpuId),
    /// The source cannot tell.
    Unknown,
}

impl Accessor {
    /// Returns the node of the accessor, if it is known; `of_cpu` maps a CPU to its node.
    pub fn node(self, of_cpu: impl FnOnce(CpuId) -> Option<NodeId>) -> Option<NodeId> {
        match self {
            Self::Node(node) => Some(node),
            Self::Cpu(cpu) => of_cpu(cpu),
            Self::Unknown => None,
        }
    }
}

/// A number of accesses to one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The virtual address, anywhere within its page.
    pub address: u64,
    /// The origin of the accesses.
    pub accessor: Accessor,
    /// The number of accesses, as counted by the source. A sample counts with its sampling period.
    pub count: u64,
}

/// The effect of an access on its page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessKind {
    /// It read.
    Read,
    /// It wrote, or read and wrote.
    Write,
    /// The source cannot tell.
    #[default]
    Unknown,
}

/// An access that a source observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessSample {
    /// The process that owns the address.
    pub pid: Pid,
    /// The thread that accessed it; `None` if the source cannot tell.
    pub tid: Option<u32>,
    /// The kind of the access.
    pub kind: AccessKind,
    /// The address, the accessor, and the number of accesses that the sample stands for.
    pub access: Access,
}
