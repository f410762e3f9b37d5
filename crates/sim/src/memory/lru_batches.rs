//! Visits of the LRU lists of a group: folios are added and removed in batches.

use super::lru_lock::{FOLIO_BATCH, LruBatch, LruLock};
use super::memory_manager::MemoryManager;

impl MemoryManager<'_> {
    fn lru_lock_index(&mut self, group: usize, node: usize) -> usize {
        let index = group * self.machine.nodes.len() + node;
        if self.memory.lru_locks.len() <= index {
            self.memory.lru_locks.resize(index + 1, LruLock::default());
        }
        index
    }

    /// Returns the number of folios that may be added or removed before a visit that other CPUs may
    /// see is due.
    pub fn lru_room(&mut self, cpu: usize, group: usize, node: usize) -> u64 {
        let index = self.lru_lock_index(group, node);
        let batch = self.memory.deferred[cpu].lru;
        match self.memory.lru_locks[index].is_shared(cpu, self.now_ns) {
            true => FOLIO_BATCH.saturating_sub(batch.folios).max(1),
            false => u64::MAX,
        }
    }

    /// Records that folios were added to or removed from a group's LRU lists.
    pub fn add_to_lru_batch(&mut self, cpu: usize, group: usize, node: usize, folios: u64) {
        let lock = self.lru_lock_index(group, node);
        let batch = &mut self.memory.deferred[cpu].lru;
        *batch = LruBatch { folios: batch.folios + folios, lock };
    }

    /// Takes the lock for the batches that are full. Returns the time of completion.
    pub fn flush_lru_batch(&mut self, cpu: usize, at_ns: u64) -> u64 {
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
    pub fn lock_lru(&mut self, cpu: usize, group: usize, node: usize, folios: u64) -> u64 {
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
