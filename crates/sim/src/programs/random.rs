//! A program that touches random lines of all memory of the process, some of it more often.

use nodeward_scenario::AccessPattern;

use super::fill::{Fill, granule_range_of, repeated_access};
use crate::cpu::Op;
use crate::ids::{SpaceId, TaskId};
use crate::memory::GranuleRange;
use crate::world::{TaskProgram, World};

/// Touches per round. A round divides its touches between hot and other memory.
const ROUND: u64 = 1 << 16;

/// One thread.
#[derive(Debug)]
pub struct Random {
    access: AccessPattern,
    fill: Fill,
    all: GranuleRange,
    hot: GranuleRange,
    hot_touches: u64,
    hot_next: bool,
}

impl Random {
    /// Creates thread `number` of `of`. `hot` is the part of touches that go to hot memory, and the
    /// part of memory that is hot, both per 1000.
    pub fn new(
        world: &World,
        space: SpaceId,
        place: (u32, u32),
        access: AccessPattern,
        hot: (u32, u32),
    ) -> Self {
        let pages = world.spaces[space].regions[0].pages;
        let hot_pages = (u128::from(pages) * u128::from(hot.1.min(1000)) / 1000) as u64;
        Self {
            access,
            fill: Fill::new(world, space, place),
            all: granule_range_of(world, space, 0..pages),
            hot: granule_range_of(world, space, 0..hot_pages.max(1)),
            hot_touches: ROUND * u64::from(hot.0.min(1000)) / 1000,
            hot_next: false,
        }
    }
}

impl TaskProgram for Random {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        if let Some(op) = self.fill.next(world, task) {
            return op;
        }
        self.hot_next = self.hot_touches == ROUND || self.hot_touches > 0 && !self.hot_next;
        match self.hot_next {
            true => repeated_access(self.hot, self.hot_touches, self.access),
            false => repeated_access(self.all, ROUND - self.hot_touches, self.access),
        }
    }

    fn populate(&mut self, world: &mut World, task: TaskId) {
        self.fill.populate(world, task);
    }
}
