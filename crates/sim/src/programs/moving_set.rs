//! A program that uses random lines of a window that moves through its memory.

use nodeward_scenario::AccessPattern;

use super::fill::{Fill, granule_range_of, repeated_access};
use crate::cpu::Op;
use crate::ids::{SpaceId, TaskId};
use crate::world::{TaskProgram, World};

/// Touches between two updates of the window's position.
const ROUND: u64 = 1 << 13;

/// One thread.
#[derive(Debug)]
pub struct MovingSet {
    space: SpaceId,
    access: AccessPattern,
    fill: Fill,
    pages: u64,
    window_pages: u64,
    stays_ns: u64,
}

impl MovingSet {
    /// Creates thread `number` of `of`, with a window of `window_bytes` that stays for `stays_ns`.
    pub fn new(
        world: &World,
        space: SpaceId,
        place: (u32, u32),
        access: AccessPattern,
        (window_bytes, stays_ns): (u64, u64),
    ) -> Self {
        let pages = world.spaces[space].regions[0].pages;
        let window_pages = window_bytes.div_ceil(world.machine.params.page_bytes);
        let window_pages = window_pages.clamp(1, pages.max(1));
        let fill = Fill::new(world, space, place);
        Self { space, access, fill, pages, window_pages, stays_ns: stays_ns.max(1) }
    }
}

impl TaskProgram for MovingSet {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        if let Some(op) = self.fill.next(world, task) {
            return op;
        }
        let places = (self.pages / self.window_pages).max(1);
        let first = world.now_ns / self.stays_ns % places * self.window_pages;
        let window = granule_range_of(world, self.space, first..first + self.window_pages);
        repeated_access(window, ROUND, self.access)
    }

    fn populate(&mut self, world: &mut World, task: TaskId) {
        self.fill.populate(world, task);
    }
}
