//! CPUs and tasks: what runs, what waits in run queues, and what each task does next.

mod run_queue;
mod task;

pub use run_queue::{QueueEntry, RunQueue};
pub use task::{
    CpuIndexSet, CpuTimeKind, GranuleRange, LineAccess, LineCopy, Op, Task, TaskId, TaskState,
};
