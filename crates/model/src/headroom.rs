//! The headroom of a node.

/// Base pages of a node that could be used for something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeHeadroom {
    /// Free pages above the kernel's reserve.
    pub free_pages: u64,
    /// File pages that the kernel considers cold: it drops them when it needs memory.
    pub inactive_file_pages: u64,
}
