//! The run queue of one CPU.

use std::collections::VecDeque;

use crate::task::TaskId;

/// An entry of a run queue. Urgent tasks come first, then the least virtual run time.
pub type Place = (bool, u64, TaskId);

/// The tasks that wait for a CPU.
#[derive(Debug, Default)]
pub struct Line {
    /// Sorted. The task that leaves the CPU has run most and goes to or near the end; the next task
    /// is the first. Both ends are cheap to reach.
    ready: VecDeque<Place>,
    /// The least virtual run time of recent tasks. A task that wakes up does not fall far behind
    /// it.
    least_ns: u64,
}

impl Line {
    /// Returns the number of waiting tasks.
    pub fn len(&self) -> usize {
        self.ready.len()
    }

    /// Returns the next task.
    pub fn first(&self) -> Option<TaskId> {
        self.ready.front().map(|&(_, _, task)| task)
    }

    /// Returns the virtual run time that a new task begins with.
    pub fn least_ns(&self) -> u64 {
        self.least_ns
    }

    /// Returns all entries, the next one first.
    pub fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.ready.iter().copied()
    }

    /// Adds an entry.
    pub fn insert(&mut self, place: Place) {
        if let Err(at) = self.ready.binary_search(&place) {
            self.ready.insert(at, place);
        }
    }

    /// Removes an entry.
    pub fn remove(&mut self, place: &Place) {
        if let Ok(at) = self.ready.binary_search(place) {
            self.ready.remove(at);
        }
    }

    /// Records the virtual run time of the running task. The least value advances with the task
    /// that has the least.
    pub fn note_run(&mut self, vruntime_ns: u64) {
        let first = self.ready.front().filter(|place| place.0);
        let least = first.map_or(vruntime_ns, |place| place.1.min(vruntime_ns));
        self.least_ns = self.least_ns.max(least);
    }

    /// Records the end of a task with this virtual run time. New tasks begin there: programs that
    /// follow each other forever must not all precede the waiting tasks.
    pub fn note_end(&mut self, vruntime_ns: u64) {
        self.least_ns = self.least_ns.max(vruntime_ns);
    }
}
