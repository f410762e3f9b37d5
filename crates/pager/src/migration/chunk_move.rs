//! The move of pages of one chunk: where they are, and where they go.

use nodeward_model::NodeId;

use crate::chunk::PageSize;
use crate::region::RegionShared;
use crate::sys::AnonMapping;

/// The move of one chunk's pages.
#[derive(Clone, Copy)]
pub struct ChunkMove<'a> {
    /// The region.
    pub region: &'a AnonMapping,
    /// Offset of the chunk in the region, in bytes.
    pub chunk_offset: usize,
    /// Page size of the chunk.
    pub size: PageSize,
    /// The node that all its pages are on, if known.
    pub from: Option<NodeId>,
    /// The destination node.
    pub to: NodeId,
    /// The kernel may move the pages instead.
    pub may_use_kernel: bool,
    /// All base pages of the chunk may arrive as one huge page.
    pub may_arrive_huge: bool,
}

impl<'a> ChunkMove<'a> {
    /// The move of a chunk of a region by the pager.
    pub fn new(region: &'a RegionShared, chunk: usize, to: NodeId) -> Self {
        Self {
            region: &region.mapping,
            chunk_offset: region.chunk_bytes(chunk).start,
            size: region.size,
            from: region.context.only_node(),
            to,
            may_use_kernel: false,
            may_arrive_huge: false,
        }
    }
}
