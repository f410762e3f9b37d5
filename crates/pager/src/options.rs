//! What a program asks of the pager.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nodeward_model::{NodeId, Nodemask};

use crate::{Copier, PoolOptions};

/// How a [`crate::Pager`] is set up.
#[derive(Clone, Default)]
pub struct PagerOptions {
    /// Threads that migrate pages; `None`: one for each usable physical core, 16 at most.
    pub lanes: Option<u32>,
    /// Bytes that are kept on each node from earlier migrations, as destinations of later ones;
    /// `None`: [`PagerOptions::POOL_BYTES`].
    pub pool_bytes: Option<u64>,
    /// How the pool is set up that keeps them, and that the program may allocate from
    /// ([`crate::Pager::pool`]). Its `keep_bytes` is `pool_bytes`.
    pub pool: PoolOptions,
    /// What copies; `None`: the fastest here, found by measurement.
    pub copier: Option<Arc<dyn Copier>>,
    /// Where only faults of user code may be handled (unprivileged_userfaultfd = 0, no access to
    /// /dev/userfaultfd): use that. The program promises that it hands managed memory to no system
    /// call while pages move; read(2) and write(2) would fail with EFAULT.
    pub assume_no_syscalls: bool,
    /// Use only what works everywhere: move_pages(2) on ourselves.
    pub kernel_only: bool,
}

impl PagerOptions {
    /// Bytes kept per node unless something else is asked for.
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

/// The pages that a region is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PageSize {
    /// Base pages (4 KiB).
    #[default]
    Base,
    /// Transparent huge pages (2 MiB), as far as the kernel has them.
    Huge,
}

/// Where memory is placed that is touched or committed for the first time.
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
    /// The node that the pages of a chunk come from; `None` to leave it to the kernel.
    pub(crate) fn node_of_chunk(&self, chunk: usize) -> Option<NodeId> {
        match self {
            Self::Local => None,
            Self::Node(node) => Some(*node),
            Self::Interleaved(nodes) => nodes.iter().nth(chunk % nodes.len().max(1)),
        }
    }
}

/// What moves the pages of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Ourselves, where that works (see [`crate::Road`]), but for batches of base pages that cost
    /// less when the kernel moves them; which that is true of is measured.
    #[default]
    Auto,
    /// The kernel (move_pages(2)), whatever it costs: it checks plain references too.
    Kernel,
}

/// What happens to a region in a child of fork(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ForkRule {
    /// The child has a copy. fork(2) waits until pages in flight are home.
    #[default]
    Copy,
    /// The child does not have it (MADV_DONTFORK); pages stay ours alone, also for raw clone(2).
    DontFork,
}

/// How a region is set up.
#[derive(Clone, Debug, Default)]
pub struct RegionOptions {
    /// Its pages.
    pub page: PageSize,
    /// Where they come from.
    pub placement: Placement,
    /// What moves them.
    pub mode: Mode,
    /// What children see.
    pub fork: ForkRule,
    /// No device and no direct I/O ever works on this memory while it moves. Kernels without
    /// UFFDIO_MOVE (before Linux 6.8) cannot tell, so there only such regions are moved by us, and
    /// only with base pages.
    pub free_of_dma: bool,
}

/// Which destination pages are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Supply {
    /// Kept ones as long as there are some, then fresh ones; or what is measured to cost less.
    #[default]
    Any,
    /// Kept ones only.
    Recycled,
    /// Fresh ones only.
    OneWay,
}

/// How fast, and how long at a stretch.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    /// At most so many bytes a second.
    pub bytes_per_s: Option<u64>,
    /// A thread that touches a page in flight waits for no longer than this, 99 times of 100.
    pub stall: Option<Duration>,
}

/// How a migration is done.
#[derive(Clone, Copy, Default)]
pub struct Migration<'a> {
    /// Limits.
    pub budget: Budget,
    /// At most so many lanes, fewer for a range that is too short to share; `None`: as many as pay.
    pub lanes: Option<u32>,
    /// Pages in flight per lane, in bytes; `None`: 2 MiB, which is also the most.
    pub batch_bytes: Option<u64>,
    /// Which destination pages.
    pub supply: Supply,
    /// Move pages that are on the destination node already, for measuring.
    pub even_if_there: bool,
    /// Called on the calling thread, every 50 ms and at the end.
    pub progress: Option<&'a dyn Fn(Progress)>,
    /// Ends the migration between two batches.
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

/// How far a migration is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that are done with, moved or not.
    pub examined_bytes: u64,
    /// All bytes.
    pub total_bytes: u64,
}

/// The wish to end a migration; any thread, or a signal handler, may say it.
#[derive(Debug, Default)]
pub struct Cancel(AtomicBool);

impl Cancel {
    /// A wish that nobody has yet.
    pub const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Says it.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was said.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
