//! Observers of a run, such as trace writers.

use std::sync::{Arc, Mutex, PoisonError};

use super::cpu_time::CpuTimeKind;
use super::series::Point;
use crate::ids::TaskId;

/// Receives the events of a run. It cannot change the run: the result is the same without it.
pub trait Observer: Send {
    /// A turn has ended. Turns of one CPU come in order of time and do not overlap.
    fn turn(&mut self, turn: &CpuTurn<'_>);

    /// A CPU (by index) was interrupted and loses `ns` nanoseconds.
    fn interrupted(&mut self, at_ns: u64, cpu: usize, ns: u64);

    /// The time series got a point.
    fn point(&mut self, point: &Point);
}

/// Uninterrupted work of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTurn<'a> {
    /// The index of the CPU.
    pub cpu: usize,
    /// Its start, in virtual nanoseconds.
    pub began_ns: u64,
    /// Its end, in virtual nanoseconds.
    pub ended_ns: u64,
    /// The task that ran.
    pub task: TaskId,
    /// The name and pid of the task's process. `None` for a kernel thread.
    pub process: Option<(&'a str, u32)>,
    /// The purpose of the time.
    pub spent: CpuTimeKind,
}

/// Lets the caller keep a handle to the observer after the run.
impl<O: Observer> Observer for Arc<Mutex<O>> {
    fn turn(&mut self, turn: &CpuTurn<'_>) {
        self.lock().unwrap_or_else(PoisonError::into_inner).turn(turn);
    }

    fn interrupted(&mut self, at_ns: u64, cpu: usize, ns: u64) {
        self.lock().unwrap_or_else(PoisonError::into_inner).interrupted(at_ns, cpu, ns);
    }

    fn point(&mut self, point: &Point) {
        self.lock().unwrap_or_else(PoisonError::into_inner).point(point);
    }
}
