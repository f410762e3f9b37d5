//! The progress of a running move, and the request to stop it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Counters that a progress bar reads, and the request to stop. All accesses are relaxed: each
/// counter is independent.
#[derive(Debug, Default)]
pub struct MoveControl {
    announced_bytes: AtomicU64,
    total_bytes: AtomicU64,
    examined_bytes: AtomicU64,
    moved_bytes: AtomicU64,
    workers: AtomicU32,
    stop: AtomicBool,
}

impl MoveControl {
    /// Returns the bytes of address space to examine.
    pub fn total_bytes(&self) -> u64 {
        let announced = self.announced_bytes.load(Ordering::Relaxed);
        self.total_bytes.load(Ordering::Relaxed).max(announced)
    }

    /// Sets how many bytes several moves will examine together, as far as is known beforehand.
    pub fn announce(&self, bytes: u64) {
        self.announced_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes of address space that are done with.
    pub fn examined_bytes(&self) -> u64 {
        self.examined_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes moved.
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of workers in use.
    pub fn workers(&self) -> u32 {
        self.workers.load(Ordering::Relaxed)
    }

    /// Requests the end of the move between two batches. The move still accounts for every page.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns whether the end was requested.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn add_total(&self, bytes: u64) {
        self.total_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_examined(&self, bytes: u64) {
        self.examined_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn add_moved(&self, bytes: u64) {
        self.moved_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn set_workers(&self, workers: u32) {
        self.workers.store(workers, Ordering::Relaxed);
    }
}
