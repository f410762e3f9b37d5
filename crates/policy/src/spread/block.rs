//! Blocks of memory, and moves of their pages.

use std::collections::BTreeMap;

use nodeward_model::NodeId;

/// Base pages of a block by node.
pub type BlockPages = BTreeMap<NodeId, u64>;

/// The pages of a block that move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockMove {
    /// The index of the block.
    pub block: usize,
    /// The node whose pages of the block move.
    pub from: NodeId,
    /// The destination of the pages.
    pub to: NodeId,
    /// The number of the pages, in base pages.
    pub pages: u64,
}
