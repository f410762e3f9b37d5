//! The progress of a measurement, and the request to end it.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use nodeward_pager::Cancel;

/// The progress of a running measurement; another thread shows it.
#[derive(Debug, Default)]
pub struct BenchProgress {
    done: AtomicU64,
    total: AtomicU64,
    moved_bytes: AtomicU64,
    cancel: Cancel,
}

impl BenchProgress {
    /// Returns the work that is done, in the unit of [`BenchProgress::total`].
    pub fn done(&self) -> u64 {
        self.done.load(Relaxed)
    }

    /// Returns the total work; zero until it is known.
    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// Returns the bytes moved so far.
    pub fn moved_bytes(&self) -> u64 {
        self.moved_bytes.load(Relaxed)
    }

    /// Returns the request to end between two batches.
    pub fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    pub(crate) fn set_total(&self, total: u64) {
        self.total.store(total, Relaxed);
    }

    pub(crate) fn advance(&self, by: u64) {
        self.done.fetch_add(by, Relaxed);
    }

    pub(crate) fn add_moved(&self, bytes: u64) {
        self.moved_bytes.fetch_add(bytes, Relaxed);
    }
}
