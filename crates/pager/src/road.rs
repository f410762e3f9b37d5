//! How pages move here.

/// The roads, fastest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Road {
    /// UFFDIO_MOVE out and in (Linux 6.8). Pages that a device or direct I/O works on are refused.
    Move,
    /// mremap(2) with MREMAP_DONTUNMAP out, UFFDIO_COPY in. Cannot see devices and direct I/O, so
    /// only for regions that are declared free of them.
    Remap,
    /// move_pages(2) on ourselves.
    Kernel,
}

impl Road {
    /// The name in output and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Move => "move",
            Self::Remap => "remap",
            Self::Kernel => "kernel",
        }
    }
}
