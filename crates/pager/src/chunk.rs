//! The sizes of memory that the pager and its pool work with: a chunk, and the pages in it.

/// Size of a chunk, of a slot and of a huge page: 2 MiB. A chunk is the unit that is claimed.
pub const CHUNK_BYTES: usize = 2 << 20;

/// The page size of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PageSize {
    /// Base pages (4 KiB).
    #[default]
    Base,
    /// Transparent huge pages (2 MiB), as far as the kernel has some.
    Huge,
}
