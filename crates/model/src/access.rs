//! Accesses to memory, as counters, samples and trackers report them.

use crate::{CpuId, NodeId};

/// Who accessed a page.
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
    /// The node it was, if that is known; `of_cpu` tells the node of a CPU.
    pub fn node(self, of_cpu: impl FnOnce(CpuId) -> Option<NodeId>) -> Option<NodeId> {
        match self {
            Self::Node(node) => Some(node),
            Self::Cpu(cpu) => of_cpu(cpu),
            Self::Unknown => None,
        }
    }
}

/// Accesses to one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The virtual address, anywhere within its page.
    pub address: u64,
    /// Who accessed it.
    pub by: Accessor,
    /// How often, as counted by the source. A sample counts as often as its period says.
    pub count: u64,
}
