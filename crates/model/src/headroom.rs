//! The headroom of a node.

/// Base pages of a node that could be used for something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeHeadroom {
    /// Free pages above the kernel's reserve.
    pub free_pages: u64,
    /// File pages that the kernel considers cold: it drops them when it needs memory.
    pub inactive_file_pages: u64,
}

impl NodeHeadroom {
    /// Returns the base pages that the node can take if the kernel gives up cold pages of files.
    pub fn free_or_cold_pages(self) -> u64 {
        self.free_pages.saturating_add(self.inactive_file_pages)
    }
}
