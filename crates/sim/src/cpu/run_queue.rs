//! The run queue of one CPU.

use std::collections::VecDeque;

use crate::ids::TaskId;

/// An entry of a run queue. Urgent tasks come first, then the least virtual run time.
pub type QueueEntry = (bool, u64, TaskId);

/// The tasks that wait for a CPU.
#[derive(Debug, Default)]
pub struct RunQueue {
    /// Sorted. The task that leaves the CPU has run most and goes to or near the end; the next task
    /// is the first. Both ends are cheap to reach.
    entries: VecDeque<QueueEntry>,
    /// The least virtual run time of recent tasks. A task that wakes up does not fall far behind
    /// it.
    min_vruntime_ns: u64,
}

impl RunQueue {
    /// Returns the number of waiting tasks.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the next task.
    pub fn first(&self) -> Option<TaskId> {
        self.entries.front().map(|&(_, _, task)| task)
    }

    /// Returns the virtual run time that a new task begins with.
    pub fn min_vruntime_ns(&self) -> u64 {
        self.min_vruntime_ns
    }

    /// Returns all entries, the next one first.
    pub fn entries(&self) -> impl Iterator<Item = QueueEntry> + '_ {
        self.entries.iter().copied()
    }

    /// Adds an entry.
    pub fn insert(&mut self, place: QueueEntry) {
        if let Err(at) = self.entries.binary_search(&place) {
            self.entries.insert(at, place);
        }
    }

    /// Removes an entry.
    pub fn remove(&mut self, place: &QueueEntry) {
        if let Ok(at) = self.entries.binary_search(place) {
            self.entries.remove(at);
        }
    }

    /// Records the virtual run time of the running task. The least value advances with the task
    /// that has the least.
    pub fn advance_min_vruntime(&mut self, vruntime_ns: u64) {
        let first = self.entries.front().filter(|place| place.0);
        let least = first.map_or(vruntime_ns, |place| place.1.min(vruntime_ns));
        self.min_vruntime_ns = self.min_vruntime_ns.max(least);
    }

    /// Records the end of a task with this virtual run time. New tasks begin there: programs that
    /// follow each other forever must not all precede the waiting tasks.
    pub fn record_exit(&mut self, vruntime_ns: u64) {
        self.min_vruntime_ns = self.min_vruntime_ns.max(vruntime_ns);
    }
}
