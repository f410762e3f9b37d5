//! The locks of the LRU lists that each group has on each node (`lruvec`).
//!
//! Folios are added and removed in batches of [`FOLIO_BATCH`] per CPU, like the kernel's
//! `folio_batch`. A batch is charged to the group that filled it.

use crate::events::QueuedLock;
use crate::world::World;

/// Folios per batch (`PAGEVEC_SIZE` until Linux 6.8, 31 since).
pub const FOLIO_BATCH: u64 = 15;
/// A lock that changed hands within this time counts as shared between CPUs, and each batch then
/// takes the lock on its own. Otherwise no other CPU could see a difference, and many batches are
/// processed together.
const SHARED_NS: u64 = 10_000_000;

/// The lock of one group on one node.
#[derive(Clone, Debug, Default)]
pub struct LruLock {
    lock: QueuedLock,
    changed_at_ns: Option<u64>,
}

impl LruLock {
    fn is_shared(&self, cpu: usize, now_ns: u64) -> bool {
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

impl World {
    fn lru_lock_index(&mut self, group: usize, node: usize) -> usize {
        let index = group * self.machine.nodes.len() + node;
        if self.memory.lru_locks.len() <= index {
            self.memory.lru_locks.resize(index + 1, LruLock::default());
        }
        index
    }

    /// Returns the number of folios that may be added or removed before a visit that other CPUs may
    /// see is due.
    pub(crate) fn lru_room(&mut self, cpu: usize, group: usize, node: usize) -> u64 {
        let index = self.lru_lock_index(group, node);
        let batch = self.memory.deferred[cpu].lru;
        match self.memory.lru_locks[index].is_shared(cpu, self.now_ns) {
            true => FOLIO_BATCH.saturating_sub(batch.folios).max(1),
            false => u64::MAX,
        }
    }

    /// Records that folios were added to or removed from a group's LRU lists.
    pub(crate) fn add_to_lru_batch(&mut self, cpu: usize, group: usize, node: usize, folios: u64) {
        let lock = self.lru_lock_index(group, node);
        let batch = &mut self.memory.deferred[cpu].lru;
        *batch = LruBatch { folios: batch.folios + folios, lock };
    }

    /// Takes the lock for the batches that are full. Returns the time of completion.
    pub(crate) fn flush_lru_batch(&mut self, cpu: usize, at_ns: u64) -> u64 {
        let batch = &mut self.memory.deferred[cpu].lru;
        let batches = batch.folios / FOLIO_BATCH;
        if batches == 0 {
            return at_ns;
        }
        batch.folios %= FOLIO_BATCH;
        let lock = batch.lock;
        self.counters.lru_visits += batches;
        self.hold_lru_lock(cpu, lock, at_ns, batches * FOLIO_BATCH)
    }

    /// Takes the lock of a group's LRU lists for a number of folios. Returns the time that takes,
    /// in nanoseconds.
    pub(crate) fn lock_lru(&mut self, cpu: usize, group: usize, node: usize, folios: u64) -> u64 {
        let lock = self.lru_lock_index(group, node);
        self.counters.lru_visits += 1;
        self.hold_lru_lock(cpu, lock, self.now_ns, folios) - self.now_ns
    }

    fn hold_lru_lock(&mut self, cpu: usize, lock: usize, at_ns: u64, folios: u64) -> u64 {
        let params = &self.machine.params;
        let hold_ns = folios.saturating_mul(params.lru_hold_ns);
        let entry = &mut self.memory.lru_locks[lock];
        if entry.lock.last_cpu().is_some_and(|last| last != cpu) {
            entry.changed_at_ns = Some(at_ns);
        }
        let hold = entry.lock.acquire(cpu, at_ns, hold_ns, params.lru_handoff_ns);
        let waited_ns = self.counters.lru_waited_ns.saturating_add(hold.waited_ns);
        self.counters.lru_waited_ns = waited_ns;
        hold.end_ns
    }
}
