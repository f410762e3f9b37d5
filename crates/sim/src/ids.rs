//! Numbers of tasks and of address spaces.

/// The index of a task.
pub type TaskId = u32;

/// The index of an address space.
pub type SpaceId = usize;
