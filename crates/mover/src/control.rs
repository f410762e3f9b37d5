//! The progress of a running move, and the request to stop it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::MoveDeadline;

/// The reasons for which a move was asked to end early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Somebody asked for it, such as by Ctrl-C; or an error ended it.
    Requested,
    /// Its deadline.
    Deadline,
}

/// Counters that a progress bar reads, and the request to stop. All accesses to counters are
/// relaxed: each is independent.
#[derive(Debug, Default)]
pub struct MoveControl {
    announced_bytes: AtomicU64,
    total_bytes: AtomicU64,
    examined_bytes: AtomicU64,
    moved_bytes: AtomicU64,
    workers: AtomicU32,
    stop: Arc<Stop>,
}

/// A request to end, if one was made.
#[derive(Debug, Default)]
struct Stop {
    seen: OnceLock<StopReason>,
    deadline: Option<MoveDeadline>,
}

impl MoveControl {
    /// Creates the control of a move with this deadline, or none.
    pub fn until(deadline: Option<MoveDeadline>) -> Self {
        Self { stop: Arc::new(Stop { seen: OnceLock::new(), deadline }), ..Self::default() }
    }

    /// Creates the control of work that ends with a move, and whose progress does not count.
    pub fn stopped_with(of_move: &Self) -> Self {
        Self { stop: Arc::clone(&of_move.stop), ..Self::default() }
    }

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
        self.stop.seen.get_or_init(|| StopReason::Requested);
    }

    /// Returns whether the end was requested, or the deadline leaves no time to move more.
    pub fn is_stopped(&self) -> bool {
        let Stop { seen, deadline } = &*self.stop;
        let is_late = || deadline.as_ref().is_some_and(MoveDeadline::stops_moves);
        seen.get().is_some()
            || is_late() && {
                seen.get_or_init(|| StopReason::Deadline);
                true
            }
    }

    /// Returns the reason of the stop, if the work has seen one.
    pub fn stop_reason(&self) -> Option<StopReason> {
        self.stop.seen.get().copied()
    }

    /// Returns whether the deadline leaves no time to look at anything.
    pub(crate) fn is_overdue(&self) -> bool {
        self.stop.deadline.as_ref().is_some_and(MoveDeadline::is_over)
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
