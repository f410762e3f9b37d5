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
    /// Returns the home of these nodes; `None` if threads have none. The inverse of the two methods
    /// below, but that one node is never spread over.
    pub fn of_nodes(threads: &Nodemask, memory: &Nodemask) -> Option<Self> {
        let first = threads.first()?;
        Some(match threads.len() {
            1 if memory != threads => Self::Interleave { threads: first, memory: memory.clone() },
            1 => Self::Node(first),
            _ => Self::Spread(threads.clone()),
        })
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a home that only its nodes are known of is the same home: one node, several, and one
    /// for threads with several for memory. Without nodes of threads there is none.
    #[test]
    fn nodes_tell_the_home() {
        let mask = |text: &str| text.parse::<Nodemask>().unwrap();
        for home in [
            Home::Node(NodeId(1)),
            Home::Spread(mask("0,2-3")),
            Home::Interleave { threads: NodeId(1), memory: mask("0-3") },
        ] {
            let (threads, memory) = (home.thread_nodes(), home.memory_nodes());
            assert_eq!(Home::of_nodes(&threads, &memory), Some(home));
        }
        assert_eq!(Home::of_nodes(&Nodemask::new(), &mask("0")), None);
    }
}
