//! A program that streams through memory from end to end, repeatedly.

use nodeward_scenario::AccessPattern;

use super::fill::{Fill, granule_range_of, line_count};
use crate::cpu::{LineAccess, Op};
use crate::ids::{SpaceId, TaskId};
use crate::memory::GranuleRange;
use crate::world::{TaskProgram, World};

/// One thread, with its part of the memory.
#[derive(Debug)]
pub struct Triad {
    access: AccessPattern,
    part: GranuleRange,
    fill: Fill,
    lines: u64,
}

impl Triad {
    /// Creates thread `number` of `of`.
    pub fn new(world: &World, space: SpaceId, place: (u32, u32), access: AccessPattern) -> Self {
        let fill = Fill::new(world, space, place);
        let pages = fill.pages();
        let bytes = (pages.end - pages.start) * world.machine.params.page_bytes;
        let part = granule_range_of(world, space, pages);
        Self { access, part, fill, lines: line_count(world, bytes) }
    }
}

impl TaskProgram for Triad {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        let Self { part, lines, access, .. } = *self;
        let fault = self.fill.next(world, task);
        fault.unwrap_or(Op::Access(LineAccess {
            range: part,
            lines,
            pattern: access,
            reused: false,
        }))
    }

    fn populate(&mut self, world: &mut World, task: TaskId) {
        self.fill.populate(world, task);
    }
}
