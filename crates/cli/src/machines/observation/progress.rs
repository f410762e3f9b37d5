//! Progress of a watch, and the request to end it early.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use nodeward_mover::MoveControl;

use crate::progress::{ProgressSource, StoppableWork};
use crate::stop_signals::Grace;

/// How far a watch has come.
pub struct WatchProgress {
    for_ns: u64,
    at_ns: AtomicU64,
    processes: AtomicUsize,
    /// Ends looks and rounds that go on, too.
    control: MoveControl,
}

impl WatchProgress {
    /// Creates the progress of a watch of this length, in nanoseconds.
    pub fn new(for_ns: u64) -> Self {
        let (at_ns, processes) = (AtomicU64::new(0), AtomicUsize::new(0));
        Self { for_ns, at_ns, processes, control: MoveControl::default() }
    }

    /// Sets how far it has come.
    pub fn update(&self, at_ns: u64, processes: usize) {
        self.at_ns.store(at_ns.min(self.for_ns), Ordering::Relaxed);
        self.processes.store(processes, Ordering::Relaxed);
    }

    /// Returns whether it is to end.
    pub fn is_stopped(&self) -> bool {
        self.control.is_stopped()
    }

    /// Returns what ends looks and rounds that go on.
    pub fn control(&self) -> &MoveControl {
        &self.control
    }
}

impl ProgressSource for WatchProgress {
    fn done_of_total(&self) -> (u64, u64) {
        (self.at_ns.load(Ordering::Relaxed), self.for_ns)
    }

    fn message(&self, _elapsed: Duration) -> String {
        match self.processes.load(Ordering::Relaxed) {
            1 => "watched, 1 process".to_owned(),
            processes => format!("watched, {processes} processes"),
        }
    }
}

impl StoppableWork for WatchProgress {
    const GRACE: Grace = Grace::Account;

    fn stop(&self) {
        self.control.stop();
    }
}
