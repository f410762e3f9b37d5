//! The behaviour of tasks.

use super::state::World;
use crate::cpu::{Op, TaskId};

/// The behaviour of a task: it chooses the next operation when the last one is done. All its
/// changes of the world happen at the world's present time.
pub trait TaskProgram: Send {
    /// Returns the next operation.
    fn next(&mut self, world: &mut World, task: TaskId) -> Op;

    /// Populates its memory in no virtual time.
    fn populate(&mut self, _world: &mut World, _task: TaskId) {}
}
