//! The destination node of each source node.

use std::collections::BTreeMap;

use crate::{NodeId, Nodemask};

/// A map from every source node of a move to its destination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodePairs {
    pairs: BTreeMap<NodeId, NodeId>,
}

impl NodePairs {
    /// Pairs the nodes of `from` with those of `to` by relative position, as migrate_pages(2) does:
    /// the n-th node of `from` goes to the n-th node of `to`, modulo the size of `to`. A node in
    /// both sets stays if the sets differ in size (so `0-2` to `0` gathers, and moves nothing away
    /// from node 0). Pairs of equal nodes are left out.
    pub fn new(from: &Nodemask, to: &Nodemask) -> Self {
        Self::from_lists(&from.iter().collect::<Vec<_>>(), &to.iter().collect::<Vec<_>>())
    }

    /// Pairs nodes as [`NodePairs::new`] does, by their positions in the lists, so that `0,1` to
    /// `1,0` swaps two nodes. Each list names a node at most once.
    pub fn from_lists(from: &[NodeId], to: &[NodeId]) -> Self {
        if to.is_empty() {
            return Self::default();
        }
        let stays = |node: &NodeId| from.len() != to.len() && to.contains(node);
        let pairs = from
            .iter()
            .enumerate()
            .map(|(position, &node)| (node, to[position % to.len()]))
            .filter(|&(node, destination)| node != destination && !stays(&node))
            .collect();
        Self { pairs }
    }

    /// Pairs every node of `nodes` with `to`.
    pub fn all_to(nodes: &Nodemask, to: NodeId) -> Self {
        Self::new(nodes, &Nodemask::from_iter([to]))
    }

    /// Returns the destination of a node's pages; `None` if they stay.
    pub fn destination(&self, node: NodeId) -> Option<NodeId> {
        self.pairs.get(&node).copied()
    }

    /// Iterates over the pairs (from, to) in ascending order of the source node.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, NodeId)> + '_ {
        self.pairs.iter().map(|(&from, &to)| (from, to))
    }

    /// Returns the nodes that pages leave.
    pub fn sources(&self) -> Nodemask {
        self.pairs.keys().copied().collect()
    }

    /// Returns the nodes that pages go to.
    pub fn destinations(&self) -> Nodemask {
        self.pairs.values().copied().collect()
    }

    /// Returns true if no page would move.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(from: &str, to: &str, expected: &[(u32, u32)]) {
        let pairs = NodePairs::new(&from.parse().unwrap(), &to.parse().unwrap());
        let seen: Vec<_> = pairs.iter().map(|(f, t)| (f.0, t.0)).collect();
        assert_eq!(seen, expected, "{from} -> {to}");
    }

    #[test]
    fn positions_are_kept_as_the_kernel_keeps_them() {
        check("0", "1", &[(0, 1)]);
        check("0,1", "2,3", &[(0, 2), (1, 3)]);
        check("0,1", "1,0", &[]); // masks have no order: 0 -> 0, 1 -> 1
        check("0-1", "1-2", &[(0, 1), (1, 2)]);
        check("0-2", "4-5", &[(0, 4), (1, 5), (2, 4)]);
        check("0-2", "0", &[(1, 0), (2, 0)]);
        check("0", "0-1", &[]); // node 0 is in both sets, which differ in size
        check("0", "", &[]);
    }

    #[test]
    fn lists_have_an_order_that_masks_have_not() {
        let pairs = NodePairs::from_lists(&[NodeId(0), NodeId(1)], &[NodeId(1), NodeId(0)]);
        assert_eq!(pairs.iter().map(|(f, t)| (f.0, t.0)).collect::<Vec<_>>(), [(0, 1), (1, 0)]);
    }
}
