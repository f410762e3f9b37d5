//! A backend of a database: it touches random lines of a segment that all backends map, and of its
//! own memory.

use nodeward_scenario::AccessPattern;

use super::fill::{Fill, granule_range_of, repeated_access};
use crate::cpu::Op;
use crate::ids::{SpaceId, TaskId};
use crate::memory::GranuleRange;
use crate::world::{TaskProgram, World};

/// Touches per round. A round divides its touches between segment and own memory.
const ROUND: u64 = 1 << 16;

/// One thread.
#[derive(Debug)]
pub struct Database {
    access: AccessPattern,
    fills: [Fill; 2],
    /// Its own memory, and the segment.
    parts: [GranuleRange; 2],
    /// Touches of either per round.
    touches: [u64; 2],
    /// Which of them is next.
    next: usize,
}

impl Database {
    /// Creates a thread, with its position among those of its process and among those of all
    /// processes of the workload. `segment_milli` is the part of touches that go to the segment,
    /// per 1000.
    pub fn new(
        world: &World,
        spaces: [SpaceId; 2],
        places: [(u32, u32); 2],
        access: AccessPattern,
        segment_milli: u32,
    ) -> Self {
        let all = |space: SpaceId| 0..world.spaces[space].regions[0].pages;
        let of_segment = ROUND * u64::from(segment_milli.min(1000)) / 1000;
        Self {
            access,
            fills: [0, 1].map(|part| Fill::new(world, spaces[part], places[part])),
            parts: spaces.map(|space| granule_range_of(world, space, all(space))),
            touches: [ROUND - of_segment, of_segment],
            next: 0,
        }
    }
}

impl TaskProgram for Database {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        for fill in &mut self.fills {
            if let Some(op) = fill.next(world, task) {
                return op;
            }
        }
        self.next = match self.touches {
            [0, _] => 1,
            [_, 0] => 0,
            _ => 1 - self.next,
        };
        repeated_access(self.parts[self.next], self.touches[self.next], self.access)
    }

    fn populate(&mut self, world: &mut World, task: TaskId) {
        self.fills.iter_mut().for_each(|fill| fill.populate(world, task));
    }
}
