//! The state that a region keeps with each chunk: the node of its pages, and those out of sight.

use nodeward_model::NodeId;

use super::chunk_claims::ChunkContent;
use crate::chunk::PageSize;
use crate::page_bits::PageBits;
use crate::pool::{NodeSlot, ShadowSlot};

/// Per-chunk state.
#[derive(Default)]
pub struct ChunkState {
    /// The node that all its pages are on, if the pager put them there.
    pub node: Option<NodeId>,
    /// Pages that a lazy migration left out of sight.
    pub lazy: Option<LazyPages>,
}

impl ChunkContent for ChunkState {
    fn is_in_sight(&self) -> bool {
        self.lazy.is_none()
    }
}

/// Pages that have been taken out of sight.
pub struct UnmappedPages {
    /// The slot that they are in, each at its own index.
    pub shadow: ShadowSlot,
    /// The pages, by their index in the chunk.
    pub pages: PageBits,
}

/// Pages that are out of sight until a thread touches them.
pub struct LazyPages {
    /// The pages that are still out, and their slot.
    pub unmapped: UnmappedPages,
    /// Their page size.
    pub size: PageSize,
    /// Number of pages that have been moved on to their destination.
    pub emptied_pages: usize,
    /// The node that they were on, if all were on one node.
    pub from: Option<NodeId>,
    /// Move them even if the touching thread runs on that node.
    pub even_if_there: bool,
}

impl LazyPages {
    /// Returns the slot, once none of its pages is out of sight any more. `full` says that all of
    /// its pages are emptied ones.
    pub fn into_slot(self, full: bool) -> NodeSlot {
        let mut shadow = self.unmapped.shadow;
        match full {
            true => shadow.pages = self.emptied_pages,
            false => shadow.clear(),
        }
        NodeSlot { shadow, node: self.from }
    }
}
