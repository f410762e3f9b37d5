//! Weights of nodes.

use std::collections::BTreeMap;

use nodeward_model::NodeId;

/// The weights of the nodes that memory is spread over; each is at least 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weights(BTreeMap<NodeId, u32>);

/// A weight of zero, which would empty its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the weight of node {0} is 0; give a weight of 1 or more, or leave the node out")]
pub struct ZeroWeight(pub NodeId);

impl Weights {
    /// Returns the weights of nodes; of a node that is named twice the last weight.
    ///
    /// # Errors
    /// If a weight is zero.
    pub fn new(weights: impl IntoIterator<Item = (NodeId, u32)>) -> Result<Self, ZeroWeight> {
        let weights: BTreeMap<_, _> = weights.into_iter().collect();
        match weights.iter().find(|(_, weight)| **weight == 0) {
            Some((&node, _)) => Err(ZeroWeight(node)),
            None => Ok(Self(weights)),
        }
    }

    /// Iterates over nodes and weights in ascending order of the nodes.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, u32)> + '_ {
        self.0.iter().map(|(&node, &weight)| (node, weight))
    }

    /// Returns whether memory is spread over a node.
    pub fn contains(&self, node: NodeId) -> bool {
        self.0.contains_key(&node)
    }
}
