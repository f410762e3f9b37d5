//! A barrier at which the threads of a process meet.

use crate::ids::{SpaceId, TaskId};

/// Barrier of the threads of a process.
#[derive(Clone, Debug, Default)]
pub struct Barrier {
    /// The process.
    pub space: SpaceId,
    /// The number of its threads.
    pub threads: usize,
    /// Threads that wait for the others.
    pub waiting: Vec<TaskId>,
    /// Number of times that it opened.
    pub opened: u64,
}

impl Barrier {
    /// Opens the barrier if all threads have arrived. Returns the threads to wake.
    pub fn open_if_full(&mut self) -> Vec<TaskId> {
        if self.waiting.len() < self.threads {
            return Vec::new();
        }
        self.opened += 1;
        std::mem::take(&mut self.waiting)
    }
}
