//! The nodes of memory of which some moves.

use super::NodePageCounts;

/// Base pages by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MovedNodes {
    /// All of them, as they were found.
    pub before: NodePageCounts,
    /// Those that stay.
    pub staying: NodePageCounts,
    /// All of them when the others have moved.
    pub planned: NodePageCounts,
}

impl MovedNodes {
    /// Returns it for pages of which some leave their nodes, and arrive on others.
    pub fn new(
        before: NodePageCounts,
        leaving: &NodePageCounts,
        arriving: &NodePageCounts,
    ) -> Self {
        let leaving = |node| leaving.get(node).copied().unwrap_or(0);
        let staying: NodePageCounts =
            before.iter().map(|(node, pages)| (*node, pages - leaving(node))).collect();
        let planned = sum(&staying, arriving);
        Self { before, staying, planned }
    }

    /// Returns all pages by node after the move, with those that moved, or were to, by the node
    /// they are on now.
    pub fn after(&self, sent: &NodePageCounts) -> NodePageCounts {
        sum(&self.staying, sent)
    }
}

fn sum(staying: &NodePageCounts, others: &NodePageCounts) -> NodePageCounts {
    let mut sum = staying.clone();
    for (&node, &pages) in others {
        *sum.entry(node).or_default() += pages;
    }
    sum.retain(|_, pages| *pages > 0);
    sum
}
