//! One CPU's line.

use std::collections::VecDeque;

use crate::task::TaskId;

/// What stands in line: urgent tasks first, then who had the least CPU time.
pub type Place = (bool, u64, TaskId);

/// The tasks that wait for a CPU.
#[derive(Debug, Default)]
pub struct Line {
    /// In order. Who was on the CPU had the most and comes last, or nearly so, and the next one is
    /// the first: both ends are near.
    ready: VecDeque<Place>,
    /// The least CPU time of those that ran lately: who wakes up does not fall far behind it.
    least_ns: u64,
}

impl Line {
    /// Tasks in line.
    pub fn len(&self) -> usize {
        self.ready.len()
    }

    /// Who is next.
    pub fn first(&self) -> Option<TaskId> {
        self.ready.front().map(|&(_, _, task)| task)
    }

    /// The CPU time that who comes new begins with.
    pub fn least_ns(&self) -> u64 {
        self.least_ns
    }

    /// All, the next one first.
    pub fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.ready.iter().copied()
    }

    /// Adds one.
    pub fn insert(&mut self, place: Place) {
        if let Err(at) = self.ready.binary_search(&place) {
            self.ready.insert(at, place);
        }
    }

    /// Takes one out.
    pub fn remove(&mut self, place: &Place) {
        if let Ok(at) = self.ready.binary_search(place) {
            self.ready.remove(at);
        }
    }

    /// The one on the CPU has had so much now: the least moves on with whoever had the least.
    pub fn note_run(&mut self, vruntime_ns: u64) {
        let first = self.ready.front().filter(|place| place.0);
        let least = first.map_or(vruntime_ns, |place| place.1.min(vruntime_ns));
        self.least_ns = self.least_ns.max(least);
    }

    /// One that had so much is gone for good. Who comes new begins there: programs that follow each
    /// other for ever must not all come before those in line.
    pub fn note_end(&mut self, vruntime_ns: u64) {
        self.least_ns = self.least_ns.max(vruntime_ns);
    }
}
