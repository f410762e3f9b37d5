//! How much more a node can take.

/// Base pages of a node that could hold something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Free, above what the kernel keeps free.
    pub free_pages: u64,
    /// File pages that the kernel holds for cold: it drops them when it needs room.
    pub cold_pages: u64,
}
