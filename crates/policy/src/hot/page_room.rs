//! Limits on the pages that a plan moves.

use std::collections::BTreeMap;

use nodeward_model::NodeId;

/// The pages that may move: in all, and to each node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageRoom {
    pages_max: u64,
    nodes: BTreeMap<NodeId, u64>,
}

impl PageRoom {
    /// Returns a limit on all moves together.
    pub fn of_all(pages_max: u64) -> Self {
        Self { pages_max, nodes: BTreeMap::new() }
    }

    /// Returns the limits of destinations. A node that is not among them has no limit.
    pub fn of_nodes(nodes: BTreeMap<NodeId, u64>) -> Self {
        Self { pages_max: u64::MAX, nodes }
    }

    /// Returns the pages that may still move to a node.
    pub fn left(&self, to: NodeId) -> u64 {
        self.nodes.get(&to).copied().unwrap_or(u64::MAX).min(self.pages_max)
    }

    /// Takes room for pages that move to a node. Returns `false` and takes none if they do not fit.
    pub fn take(&mut self, to: NodeId, pages: u64) -> bool {
        let fits = pages <= self.left(to);
        if fits {
            self.pages_max -= pages;
            self.nodes.entry(to).and_modify(|left| *left -= pages);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what moves to one node takes no room on another; a limit on all counts both.
    #[test]
    fn nodes_have_room_of_their_own() {
        let [here, there, elsewhere] = [0, 1, 2].map(NodeId);
        let mut room = PageRoom::of_nodes([(here, 5), (there, 3)].into());
        assert!(room.take(here, 5) && !room.take(here, 1));
        assert!(!room.take(there, 4) && room.take(there, 3));
        assert!(room.take(elsewhere, 1 << 40));
        let mut all = PageRoom::of_all(4);
        assert!(all.take(here, 3) && !all.take(there, 2) && all.take(there, 1));
        assert_eq!(all.left(here), 0);
    }
}
