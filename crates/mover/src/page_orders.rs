//! Orders for pages that are named one by one, each with its destination.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodeward_model::{NodeId, NodePairs, Nodemask, PageSet};
use nodeward_policy::folio_plan::MoveOrder;

/// Named pages of several views.
#[derive(Debug)]
pub(crate) struct PageOrders {
    page_bytes: u64,
    /// Nodes that pages leave.
    sources: Nodemask,
    /// Of each view the pages by destination.
    sets: Vec<BTreeMap<NodeId, PageSet>>,
}

impl PageOrders {
    /// Creates empty orders for `views` views.
    pub(crate) fn new(views: usize, page_bytes: u64) -> Self {
        Self { page_bytes, sources: Nodemask::default(), sets: vec![BTreeMap::new(); views] }
    }

    /// Returns the pages of a view that go between two nodes, to add some.
    pub(crate) fn pages(&mut self, view: usize, (from, to): (NodeId, NodeId)) -> &mut PageSet {
        self.sources.insert(from);
        let page_bytes = self.page_bytes;
        self.sets[view].entry(to).or_insert_with(|| PageSet::new(page_bytes))
    }

    /// Returns the orders for each view.
    pub(crate) fn finish(self) -> Vec<Arc<[MoveOrder]>> {
        let order = |(to, pages)| MoveOrder {
            pairs: NodePairs::all_to(&self.sources, to),
            pages: Some(pages),
        };
        self.sets.into_iter().map(|sets| sets.into_iter().map(order).collect()).collect()
    }
}
