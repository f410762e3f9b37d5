//! The sizes that the pager and its pool work with: a chunk, the pages in it, and its pins.

/// Size of a chunk, of a slot and of a huge page: 2 MiB. A chunk is the unit that is claimed.
pub const CHUNK_BYTES: usize = 2 << 20;

/// Pins of a region that need no lock: two cache lines. Further ones go to a list.
pub const PIN_SLOTS: usize = 16;

/// The page size of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PageSize {
    /// Base pages (4 KiB).
    #[default]
    Base,
    /// Transparent huge pages (2 MiB), as far as the kernel has some.
    Huge,
}
