//! Options of a region: where its pages are placed, which method moves them, and what children of
//! fork(2) get.

use nodeward_model::{NodeId, Nodemask};

use crate::chunk::PageSize;

/// Placement of memory that is touched or committed for the first time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// The node of the thread that touches or commits the memory.
    #[default]
    Local,
    /// This node, as long as it has room.
    Node(NodeId),
    /// Each of these nodes in turn, 2 MiB at a time.
    Interleaved(Nodemask),
}

impl Placement {
    /// Returns the node that the pages of a chunk come from; `None` leaves it to the kernel.
    pub(crate) fn node_of_chunk(&self, chunk: usize) -> Option<NodeId> {
        match self {
            Self::Local => None,
            Self::Node(node) => Some(*node),
            Self::Interleaved(nodes) => nodes.iter().nth(chunk % nodes.len().max(1)),
        }
    }
}

/// The method that moves the pages of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// The pager itself, where that works (see [`crate::Backend`]), except batches of base pages
    /// that are measured to be cheaper when the kernel moves them.
    #[default]
    Auto,
    /// The kernel (move_pages(2)), whatever it costs: it also checks plain page references
    /// (vmsplice(2), MSG_ZEROCOPY).
    Kernel,
}

/// The size of the pages at the destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrive {
    /// Base pages arrive as base pages, and huge pages as huge pages.
    #[default]
    AsTheyLeave,
    /// The base pages of each 2 MiB, aligned, arrive together as one huge page where that can be;
    /// elsewhere they arrive as base pages, and [`crate::MigrationReport::huge_fallbacks`] counts
    /// them. It needs: all of them in memory and on one node; a free huge page on the destination;
    /// batches of 2 MiB and a stall budget that allows them; [`crate::Supply::Any`] or
    /// [`crate::Supply::OneWay`]; a kernel that frees empty page tables (Linux 6.14 or newer, with
    /// CONFIG_PT_RECLAIM); and a pager that moves pages itself.
    ///
    /// Until such a migration ends, the program must not map other memory over a part of its range:
    /// what is written there meanwhile may be lost.
    Huge,
}

/// The fate of a region in a child of fork(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForkRule {
    /// The child has a copy. fork(2) waits until pages in flight are back.
    #[default]
    Copy,
    /// The child does not have the region (MADV_DONTFORK). Its pages are never shared, even after a
    /// raw clone(2).
    DontFork,
}

/// Options of a region.
#[derive(Clone, Debug, Default)]
pub struct RegionOptions {
    /// Page size.
    pub page: PageSize,
    /// Placement of new pages.
    pub placement: Placement,
    /// Size of pages that arrive, for migrations that do not say.
    pub arrive: Arrive,
    /// Method that moves the region's pages.
    pub mode: Mode,
    /// Fate of the region in children.
    pub fork: ForkRule,
    /// A promise that no device and no direct I/O works on this memory while it moves. Kernels
    /// without UFFDIO_MOVE (before Linux 6.8) cannot detect that, so there the pager moves only
    /// such regions, and only with base pages.
    pub free_of_dma: bool,
}
