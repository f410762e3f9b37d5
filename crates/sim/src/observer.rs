//! Who is told what happens while it happens: writers of traces.

use std::sync::{Arc, Mutex, PoisonError};

use crate::series::Point;
use crate::task::{Spent, TaskId};

/// Is told what happens. It cannot change it: a run is the same with and without.
pub trait Observer: Send {
    /// A turn has ended. Turns of one CPU come in order of time and do not overlap.
    fn turn(&mut self, turn: &Turn<'_>);

    /// A CPU, by index, was interrupted and loses so many nanoseconds.
    fn interrupted(&mut self, at_ns: u64, cpu: usize, ns: u64);

    /// The curves got a point.
    fn point(&mut self, point: &Point);
}

/// What a CPU did at a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn<'a> {
    /// The index of the CPU.
    pub cpu: usize,
    /// When it began, in virtual nanoseconds.
    pub began_ns: u64,
    /// When it ended.
    pub ended_ns: u64,
    /// Which task it did it for.
    pub task: TaskId,
    /// The name and number of the task's process; none for a thread of the kernel.
    pub process: Option<(&'a str, u32)>,
    /// What the time was spent on.
    pub spent: Spent,
}

/// Shared with who wants it back when the run is over.
impl<O: Observer> Observer for Arc<Mutex<O>> {
    fn turn(&mut self, turn: &Turn<'_>) {
        self.lock().unwrap_or_else(PoisonError::into_inner).turn(turn);
    }

    fn interrupted(&mut self, at_ns: u64, cpu: usize, ns: u64) {
        self.lock().unwrap_or_else(PoisonError::into_inner).interrupted(at_ns, cpu, ns);
    }

    fn point(&mut self, point: &Point) {
        self.lock().unwrap_or_else(PoisonError::into_inner).point(point);
    }
}
