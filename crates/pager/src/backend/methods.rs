//! The names of the methods by which the pager moves pages.

/// A method of moving pages; the fastest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Backend {
    /// UFFDIO_MOVE out and in (Linux 6.8). Pages in use by a device or direct I/O are refused.
    Move,
    /// mremap(2) with MREMAP_DONTUNMAP out, UFFDIO_COPY in. Does not detect use by devices and
    /// direct I/O, so only for regions that are declared free of it.
    Remap,
    /// move_pages(2) on this process.
    Kernel,
}

impl Backend {
    /// Returns the name in output and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Move => "move",
            Self::Remap => "remap",
            Self::Kernel => "kernel",
        }
    }
}
