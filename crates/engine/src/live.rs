//! What can be seen of a move, and said to it, while it runs.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Counters that a progress bar reads, and the wish to stop. Relaxed throughout: each counter
/// stands for itself.
#[derive(Debug, Default)]
pub struct Live {
    announced_bytes: AtomicU64,
    total_bytes: AtomicU64,
    examined_bytes: AtomicU64,
    moved_bytes: AtomicU64,
    workers: AtomicU32,
    stop: AtomicBool,
}

impl Live {
    /// Bytes of address space to examine.
    pub fn total_bytes(&self) -> u64 {
        let announced = self.announced_bytes.load(Ordering::Relaxed);
        self.total_bytes.load(Ordering::Relaxed).max(announced)
    }

    /// Tells how many bytes several moves will examine together, as far as is known beforehand.
    pub fn announce(&self, bytes: u64) {
        self.announced_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of address space that are done with.
    pub fn examined_bytes(&self) -> u64 {
        self.examined_bytes.load(Ordering::Relaxed)
    }

    /// Bytes moved.
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes.load(Ordering::Relaxed)
    }

    /// Workers at work.
    pub fn workers(&self) -> u32 {
        self.workers.load(Ordering::Relaxed)
    }

    /// Asks the move to end between two batches. It still accounts for every page.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked to end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn expect(&self, bytes: u64) {
        self.total_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn examined(&self, bytes: u64) {
        self.examined_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn moved(&self, bytes: u64) {
        self.moved_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn at_work(&self, workers: u32) {
        self.workers.store(workers, Ordering::Relaxed);
    }
}
