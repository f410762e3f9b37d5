//! The public handle of a page pool: of one that the program opened, or of a pager's.
//!
//! A pager's pool needs the pager's threads, so such a handle keeps the pager alive.

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use nodeward_linux::{Linux, nodes};
use nodeward_machine::Machine;

use super::pager_shared::PagerShared;
use crate::error::Result;
use crate::pool::{PageRun, Pool, PoolError, PoolOptions, PoolOwner, PoolStats, RunRequest};

/// An allocator of runs of 2^n pages for buffer pools, packet rings and caches. Memory comes from
/// the node of the calling thread. A clone is another handle; the pool ends with the last one.
///
/// Any thread may use and free an allocated run. Children of fork(2) do not inherit the memory of a
/// pool (`MADV_DONTFORK`); there all calls fail with [`PoolError::Forked`]. Signal handlers must
/// neither allocate nor free.
#[derive(Clone)]
pub struct PagePool(Arc<PoolHandle>);

struct PoolHandle {
    pool: Arc<Pool>,
    /// Dropped after the handle's own reference.
    _holder: PoolHolder,
}

/// The part that a pool lives as long as.
#[expect(dead_code, reason = "held, never read")]
enum PoolHolder {
    Owner(PoolOwner),
    /// The pager that has the pool's owner.
    Pager(Arc<PagerShared>),
}

impl PagePool {
    /// Opens a pool without memory.
    ///
    /// # Errors
    /// [`Error::Machine`](crate::Error::Machine) if /sys or /proc cannot be read,
    /// [`Error::System`](crate::Error::System) if a thread cannot be started, and
    /// [`Error::BadOption`](crate::Error::BadOption) for `zone_bytes` below one page.
    pub fn open(options: &PoolOptions) -> Result<Self> {
        let topology = Linux::open().topology()?;
        let allowed = nodes::nodestring_context(Path::new("/"), &topology)?.allowed;
        let usable = allowed.and(&topology.nodes_with_memory());
        let owner = PoolOwner::open(options, &[options.page], topology, &usable, None)?;
        Ok(Self::new(Arc::clone(owner.pool()), PoolHolder::Owner(owner)))
    }

    /// Returns another handle of a pager's pool. The handle keeps the pager alive.
    pub(super) fn of_pager(pager: &Arc<PagerShared>) -> Self {
        Self::new(Arc::clone(pager.pool()), PoolHolder::Pager(Arc::clone(pager)))
    }

    fn new(pool: Arc<Pool>, holder: PoolHolder) -> Self {
        Self(Arc::new(PoolHandle { pool, _holder: holder }))
    }

    /// Allocates a run of 2^order pages, which begins at a multiple of its length.
    ///
    /// # Errors
    /// [`PoolError::NoMemory`] if no allowed node has room, [`PoolError::UnknownNode`],
    /// [`PoolError::Order`], [`PoolError::Closed`], [`PoolError::Forked`].
    pub fn allocate(&self, wanted: &RunRequest) -> std::result::Result<NonNull<u8>, PoolError> {
        self.pool().allocate(wanted)
    }

    /// Frees a run that [`PagePool::allocate`] returned, with its order. The memory must not be
    /// used any more.
    ///
    /// # Errors
    /// [`PoolError::Order`], [`PoolError::NotOurs`], [`PoolError::NotAStart`],
    /// [`PoolError::WrongOrder`], [`PoolError::Guarded`], [`PoolError::DoubleFree`],
    /// [`PoolError::Forked`]. Then nothing is freed.
    pub fn free(&self, start: NonNull<u8>, order: u32) -> std::result::Result<(), PoolError> {
        self.pool().free(start, order)
    }

    /// Allocates a run that is freed when it is dropped.
    ///
    /// # Errors
    /// As for [`PagePool::allocate`].
    pub fn run(&self, wanted: &RunRequest) -> std::result::Result<PageRun<'_>, PoolError> {
        PageRun::new(self.pool(), wanted)
    }

    /// Returns the size of a base page in bytes.
    pub fn page_bytes(&self) -> usize {
        self.pool().arena.page_bytes()
    }

    /// Returns the largest order; such a run has 2 MiB.
    pub fn order_max(&self) -> u32 {
        self.pool().arena.chunk_pages().ilog2()
    }

    /// Returns the counters of the pool; all zero in children of fork(2). Visits the lists of all
    /// CPUs, which takes some time on a large machine.
    pub fn stats(&self) -> PoolStats {
        let is_ours = self.pool().check_process().is_ok();
        // In a child, locks may be held for ever.
        if is_ours { self.pool().stats() } else { PoolStats::default() }
    }

    /// Frees all free memory to the kernel and returns the number of bytes. In a child of fork(2)
    /// there are none.
    pub fn give_back(&self) -> usize {
        let is_ours = self.pool().check_process().is_ok();
        if is_ours { self.pool().give_back() * self.page_bytes() } else { 0 }
    }

    /// Does the periodic work. To be called once in a period for pools without housekeeper.
    pub fn tick(&self) {
        if self.pool().check_process().is_ok() {
            self.pool().tick();
        }
    }

    /// Ends allocation for good. Allocated runs stay valid and can be freed.
    pub fn close(&self) {
        self.pool().close();
    }

    fn pool(&self) -> &Pool {
        &self.0.pool
    }
}

impl fmt::Debug for PagePool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PagePool").field("zones", &self.pool().zones.len()).finish_non_exhaustive()
    }
}
