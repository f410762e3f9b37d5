//! The locks of the LRU lists that each group has on each node (`lruvec`).
//!
//! Folios are added and removed in batches of [`FOLIO_BATCH`] per CPU, like the kernel's
//! `folio_batch`. A batch is charged to the group that filled it.

use crate::events::QueuedLock;

/// Folios per batch (`PAGEVEC_SIZE` until Linux 6.8, 31 since).
pub const FOLIO_BATCH: u64 = 15;
/// A lock that changed hands within this time counts as shared between CPUs, and each batch then
/// takes the lock on its own. Otherwise no other CPU could see a difference, and many batches are
/// processed together.
const SHARED_NS: u64 = 10_000_000;

/// The lock of one group on one node.
#[derive(Clone, Debug, Default)]
pub struct LruLock {
    /// The lock itself.
    pub lock: QueuedLock,
    /// The last time that it changed hands.
    pub changed_at_ns: Option<u64>,
}

impl LruLock {
    /// Returns whether other CPUs take the lock, too.
    pub fn is_shared(&self, cpu: usize, now_ns: u64) -> bool {
        self.lock.last_cpu().is_some_and(|last| last != cpu)
            || self.changed_at_ns.is_some_and(|changed| changed + SHARED_NS > now_ns)
    }
}

/// Folios of a CPU that the group has not accounted for yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct LruBatch {
    /// Folios in the batch.
    pub folios: u64,
    /// The lock to take, by index.
    pub lock: usize,
}
