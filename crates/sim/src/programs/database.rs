//! A backend of a database: it touches random lines of a segment that all backends map, of its own
//! part of that segment, and of its own memory.

use nodeward_scenario::AccessPattern;

use super::fill::{Fill, granule_range_of, repeated_access};
use crate::cpu::Op;
use crate::ids::{SpaceId, TaskId};
use crate::memory::GranuleRange;
use crate::world::{TaskProgram, World};

/// Touches per round. A round divides its touches between segment, own part and own memory.
const ROUND: u64 = 1 << 16;

/// One thread.
#[derive(Debug)]
pub struct Database {
    access: AccessPattern,
    fills: [Fill; 2],
    /// Its own memory, the segment, and its own part of that.
    parts: [GranuleRange; 3],
    /// Touches of each per round.
    touches: [u64; 3],
    /// Which of them was last.
    last: usize,
}

/// Parts of touches, per 1000.
#[derive(Clone, Copy, Debug)]
pub struct SegmentTouches {
    /// Those that go to the segment.
    pub segment_milli: u32,
    /// Those of them that go to the process's own part of it.
    pub own_part_milli: u32,
}

impl Database {
    /// Creates a thread of process `process.0` of `process.1`, with its position among the threads
    /// of its process and among those of all processes of the workload.
    pub fn new(
        world: &World,
        spaces: [SpaceId; 2],
        places: [(u32, u32); 2],
        (process, of): (u32, u32),
        (access, touches): (AccessPattern, SegmentTouches),
    ) -> Self {
        let pages = |space: SpaceId| world.spaces[space].regions[0].pages;
        let part = |total: u64, milli: u32| total * u64::from(milli.min(1000)) / 1000;
        let of_segment = part(ROUND, touches.segment_milli);
        let of_own_part = part(of_segment, touches.own_part_milli);
        let [own, segment] = spaces;
        let cut = |process: u32| pages(segment) * u64::from(process) / u64::from(of.max(1));
        let own_part = cut(process)..cut(process + 1);
        Self {
            access,
            fills: [0, 1].map(|part| Fill::new(world, spaces[part], places[part])),
            parts: [
                granule_range_of(world, own, 0..pages(own)),
                granule_range_of(world, segment, 0..pages(segment)),
                granule_range_of(world, segment, own_part),
            ],
            touches: [ROUND - of_segment, of_segment - of_own_part, of_own_part],
            last: 0,
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
        let parts = self.parts.len();
        let mut next = (1..=parts).map(|step| (self.last + step) % parts);
        self.last = next.find(|&part| self.touches[part] > 0).unwrap_or(0);
        repeated_access(self.parts[self.last], self.touches[self.last], self.access)
    }

    fn populate(&mut self, world: &mut World, task: TaskId) {
        self.fills.iter_mut().for_each(|fill| fill.populate(world, task));
    }
}
