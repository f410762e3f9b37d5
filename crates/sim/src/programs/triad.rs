//! A program that streams through memory from end to end, repeatedly.

use nodeward_scenario::Access;

use super::fill::{Fill, lines_of, part_of};
use crate::space::SpaceId;
use crate::task::{Lines, Op, Part, Program, TaskId};
use crate::world::World;

/// One thread, with its part of the memory.
#[derive(Debug)]
pub struct Triad {
    access: Access,
    part: Part,
    fill: Fill,
    lines: u64,
}

impl Triad {
    /// Creates thread `number` of `of`.
    pub fn new(world: &World, space: SpaceId, place: (u32, u32), access: Access) -> Self {
        let fill = Fill::new(world, space, place);
        let pages = fill.pages();
        let bytes = (pages.end - pages.start) * world.machine.params.page_bytes;
        let part = part_of(world, space, pages);
        Self { access, part, fill, lines: lines_of(world, bytes) }
    }
}

impl Program for Triad {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        let Self { part, lines, access, .. } = *self;
        let fault = self.fill.next(world, task);
        fault.unwrap_or(Op::Lines(Lines { part, lines, access, reused: false }))
    }

    fn populate(&mut self, world: &mut World, task: TaskId) {
        self.fill.populate(world, task);
    }
}
