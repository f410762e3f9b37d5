//! A program that touches all of its memory once, and keeps it.

use super::fill::Fill;
use crate::cpu::Op;
use crate::ids::{SpaceId, TaskId};
use crate::world::{TaskProgram, World};

/// One thread, with its part of the memory.
#[derive(Debug)]
pub struct Hog {
    fill: Fill,
}

impl Hog {
    /// Creates thread `number` of `of`.
    pub fn new(world: &World, space: SpaceId, place: (u32, u32)) -> Self {
        Self { fill: Fill::new(world, space, place) }
    }
}

impl TaskProgram for Hog {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        let before = self.fill.pages().start;
        let Some(op) = self.fill.next(world, task) else { return Op::Wait };
        world.count_work(task, self.fill.pages().start - before);
        op
    }
}
