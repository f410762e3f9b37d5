//! A home: by the ids of its nodes, as plans and saved state have it, and by their positions, as
//! the stages of a round have it.

use nodeward_model::{NodeId, Nodemask};
use serde::{Deserialize, Serialize};

use super::node_table::{NodeIndex, NodeTable};

/// Where an entity belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Home {
    /// On one node, threads and memory.
    Node(NodeId),
    /// On several nodes, because it is larger than one or fits none: each thread near its part.
    /// Which pages go where, `policy::hot` knows from counts.
    Spread(Nodemask),
    /// Its threads on one node, its memory evenly on several: that node's memory controller
    /// delivers all it can.
    Interleave {
        /// Where its threads belong.
        threads: NodeId,
        /// Where its memory belongs.
        memory: Nodemask,
    },
}

impl Home {
    /// The nodes where its threads belong.
    pub fn thread_nodes(&self) -> Nodemask {
        match self {
            Self::Node(node) | Self::Interleave { threads: node, .. } => {
                [*node].into_iter().collect()
            }
            Self::Spread(nodes) => nodes.clone(),
        }
    }

    /// The nodes where its memory belongs; one without memory stands for the nearest that has some.
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
    /// The home of a placement.
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

    /// Where its threads belong.
    pub(super) fn thread_nodes(&self) -> &[NodeIndex] {
        match self {
            Self::Node(node) | Self::Interleave { threads: node, .. } => std::slice::from_ref(node),
            Self::Spread(nodes) => nodes,
        }
    }

    /// Where its memory belongs, each node once.
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
