//! Options of the pager, its regions and migrations.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nodeward_model::{NodeId, Nodemask};

use crate::{Copier, PoolOptions};

/// Options of a [`crate::Pager`].
#[derive(Clone, Default)]
pub struct PagerOptions {
    /// Number of threads that migrate pages; `None`: one per usable physical core, at most 16.
    pub lanes: Option<u32>,
    /// Bytes per node of pages that earlier migrations emptied, kept as destinations of later ones;
    /// `None`: [`PagerOptions::POOL_BYTES`].
    pub pool_bytes: Option<u64>,
    /// Options of the pool that keeps them, and that the program may allocate from
    /// ([`crate::Pager::pool`]). `pool_bytes` replaces its `keep_bytes`.
    pub pool: PoolOptions,
    /// The copier; `None`: the fastest of this machine, found by measurement.
    pub copier: Option<Arc<dyn Copier>>,
    /// Use userfaultfd even where it can only handle faults of user code (unprivileged_userfaultfd
    /// = 0, no access to /dev/userfaultfd). The program promises to pass no managed memory to a
    /// system call while pages move: read(2) and write(2) would fail with EFAULT.
    pub assume_no_syscalls: bool,
    /// Use only the method that works everywhere: move_pages(2) on this process.
    pub kernel_only: bool,
}

impl PagerOptions {
    /// Default of `pool_bytes`.
    pub const POOL_BYTES: u64 = 64 << 20;
}

impl fmt::Debug for PagerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagerOptions")
            .field("lanes", &self.lanes)
            .field("pool_bytes", &self.pool_bytes)
            .field("pool", &self.pool)
            .field("copier", &self.copier.as_ref().map(|copier| copier.name()))
            .field("assume_no_syscalls", &self.assume_no_syscalls)
            .field("kernel_only", &self.kernel_only)
            .finish()
    }
}

/// The page size of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PageSize {
    /// Base pages (4 KiB).
    #[default]
    Base,
    /// Transparent huge pages (2 MiB), as far as the kernel has some.
    Huge,
}

/// Placement of memory that is touched or committed for the first time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// On the node of the thread that touches or commits it.
    #[default]
    Local,
    /// On this node, as long as it has room.
    Node(NodeId),
    /// 2 MiB on each of these nodes in turn.
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
    /// Method that moves its pages.
    pub mode: Mode,
    /// Fate of the region in children.
    pub fork: ForkRule,
    /// A promise that no device and no direct I/O works on this memory while it moves. Kernels
    /// without UFFDIO_MOVE (before Linux 6.8) cannot detect that, so there the pager moves only
    /// such regions, and only with base pages.
    pub free_of_dma: bool,
}

/// The source of destination pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Supply {
    /// Kept pages while there are some, then fresh ones; or the kind that is measured to be
    /// cheaper.
    #[default]
    Any,
    /// Kept pages only.
    Recycled,
    /// Fresh pages only.
    OneWay,
}

/// Limits on the rate of a migration and on stalls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    /// Maximum rate in bytes a second.
    pub bytes_per_s: Option<u64>,
    /// Maximum time that a thread waits for a page in flight, in 99 of 100 cases.
    pub stall: Option<Duration>,
}

/// Options of a migration.
#[derive(Clone, Copy, Default)]
pub struct Migration<'a> {
    /// Limits on rate and stalls.
    pub budget: Budget,
    /// Maximum number of lanes; a range that is too short to share gets fewer. `None`: as many as
    /// are worth it.
    pub lanes: Option<u32>,
    /// Bytes in flight per lane; `None`: 2 MiB, which is also the maximum.
    pub batch_bytes: Option<u64>,
    /// Source of destination pages.
    pub supply: Supply,
    /// Move pages that are on the destination node already, too. For measurements.
    pub even_if_there: bool,
    /// Called on the calling thread, every 50 ms and at the end.
    pub progress: Option<&'a dyn Fn(Progress)>,
    /// Ends the migration between two batches when cancelled.
    pub cancel: Option<&'a Cancel>,
}

impl fmt::Debug for Migration<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Migration")
            .field("budget", &self.budget)
            .field("lanes", &self.lanes)
            .field("batch_bytes", &self.batch_bytes)
            .field("supply", &self.supply)
            .field("even_if_there", &self.even_if_there)
            .finish_non_exhaustive()
    }
}

/// Progress of a migration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that are done with, moved or not.
    pub examined_bytes: u64,
    /// All bytes.
    pub total_bytes: u64,
}

/// A request to end a migration. Any thread, or a signal handler, may make it.
#[derive(Debug, Default)]
pub struct Cancel(AtomicBool);

impl Cancel {
    /// A request that is not made yet.
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Requests the end of the migration.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns whether the end was requested.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
