//! A home: by the ids of its nodes, as plans and saved state have it, and by their positions, as
//! the stages of a round have it.

use nodeward_model::{NodeId, Nodemask};
use serde::{Deserialize, Serialize};

use super::node_table::{NodeIndex, NodeTable};

/// The nodes where an entity belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Home {
    /// One node for threads and memory.
    Node(NodeId),
    /// Several nodes, because the entity is larger than one node or fits none: each thread is near
    /// its part. Which pages go where, `policy::hot` knows from counts.
    Spread(Nodemask),
    /// One node for threads, and several for memory, evenly: the memory controller of the one
    /// delivers all it can.
    Interleave {
        /// The node of the threads.
        threads: NodeId,
        /// The nodes of the memory.
        memory: Nodemask,
    },
}

impl Home {
    /// Returns the nodes where threads belong.
    pub fn thread_nodes(&self) -> Nodemask {
        match self {
            Self::Node(node) | Self::Interleave { threads: node, .. } => {
                [*node].into_iter().collect()
            }
            Self::Spread(nodes) => nodes.clone(),
        }
    }

    /// Returns the nodes where memory belongs; a node without memory stands for the nearest that
    /// has some.
    pub fn memory_nodes(&self) -> Nodemask {
        match self {
            Self::Interleave { memory, .. } => memory.clone(),
            home => home.thread_nodes(),
        }
    }
}

/// A home in a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HomePlacement {
    /// As [`Home::Node`].
    Node(NodeIndex),
    /// As [`Home::Spread`].
    Spread(Vec<NodeIndex>),
    /// As [`Home::Interleave`].
    Interleave { threads: NodeIndex, memory: Vec<NodeIndex> },
}

impl HomePlacement {
    /// Returns the home by the ids of its nodes.
    pub(super) fn home(&self, nodes: &NodeTable) -> Home {
        let mask = |indices: &[NodeIndex]| indices.iter().map(|&node| nodes.id(node)).collect();
        match self {
            Self::Node(node) => Home::Node(nodes.id(*node)),
            Self::Spread(all) => Home::Spread(mask(all)),
            Self::Interleave { threads, memory } => {
                Home::Interleave { threads: nodes.id(*threads), memory: mask(memory) }
            }
        }
    }

    /// Returns the nodes where threads belong.
    pub(super) fn thread_nodes(&self) -> &[NodeIndex] {
        match self {
            Self::Node(node) | Self::Interleave { threads: node, .. } => std::slice::from_ref(node),
            Self::Spread(nodes) => nodes,
        }
    }

    /// Returns the nodes where memory belongs, each once.
    pub(super) fn memory_nodes(&self, nodes: &NodeTable) -> Vec<NodeIndex> {
        let mut memory: Vec<NodeIndex> = match self {
            Self::Interleave { memory, .. } => memory.clone(),
            _ => self.thread_nodes().iter().filter_map(|&node| nodes.memory_node(node)).collect(),
        };
        memory.sort_unstable();
        memory.dedup();
        memory
    }
}
