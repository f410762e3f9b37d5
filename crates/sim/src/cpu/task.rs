//! A thread: its present operation, and its scheduling state.

use super::op::Op;
use crate::hardware::CpuIndexSet;
use crate::ids::SpaceId;

/// The scheduling state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// In a run queue.
    Ready,
    /// On a CPU.
    Running,
    /// Waiting for a wake-up or a time.
    Waiting,
    /// Exited.
    Ended,
}

/// A thread. The fields that each turn needs come first. With thousands of tasks the host's caches
/// determine the time of a turn, so order and alignment are fixed.
#[repr(C, align(64))]
pub struct Task {
    /// The operation in progress.
    pub op: Option<Op>,
    /// The CPU that it is on, or was on last.
    pub cpu: usize,
    /// Virtual run time: weighted CPU time in nanoseconds. The task with the least runs next.
    pub vruntime_ns: u64,
    /// CPU time so far, in nanoseconds.
    pub cpu_time_ns: u64,
    /// The time at which it last left a CPU.
    pub last_ran_ns: u64,
    /// Its address space. `None` for a kernel thread.
    pub space: Option<SpaceId>,
    /// Its workload, by index. `None` for a kernel thread.
    pub workload: Option<usize>,
    /// The index of its home node.
    pub home: Option<usize>,
    /// Whether it precedes other tasks: threads that the kernel waits for.
    pub urgent: bool,
    /// Its scheduling state.
    pub state: TaskState,
    /// Whether it was woken while it was not waiting.
    pub wakeup_pending: bool,
    /// The CPUs that it may run on.
    pub allowed: CpuIndexSet,
}

impl Task {
    /// Creates a kernel thread that may run on these CPUs, and begins on the first of them.
    pub fn new(allowed: CpuIndexSet) -> Self {
        let cpu = allowed.iter().next().unwrap_or(0);
        Self {
            op: None,
            space: None,
            workload: None,
            cpu,
            allowed,
            home: None,
            urgent: false,
            state: TaskState::Ready,
            wakeup_pending: false,
            vruntime_ns: 0,
            last_ran_ns: 0,
            cpu_time_ns: 0,
        }
    }
}
