//! First touch of memory.

use std::ops::Range;

use nodeward_scenario::AccessPattern;

use crate::cpu::{LineAccess, Op, Task};
use crate::ids::{SpaceId, TaskId};
use crate::memory::GranuleRange;
use crate::statistics::CpuTimeKind;
use crate::world::World;

/// A thread's part of its process's memory, or of a segment, that is still to be touched.
#[derive(Debug)]
pub struct Fill {
    space: SpaceId,
    pages: Range<u64>,
}

impl Fill {
    /// Returns the part of thread `number` of `of`.
    pub fn new(world: &World, space: SpaceId, place: (u32, u32)) -> Self {
        Self { space, pages: thread_pages(world, space, place) }
    }

    /// Returns the remaining pages.
    pub fn pages(&self) -> Range<u64> {
        self.pages.clone()
    }

    /// Returns the next operation, or `None` when all pages are present.
    pub fn next(&mut self, world: &mut World, task: TaskId) -> Option<Op> {
        if self.pages.is_empty() {
            return None;
        }
        // Not the space itself, which may be a segment.
        let Task { cpu, space: process, .. } = world.tasks[task as usize];
        let done = match world.fault_in(cpu, self.space, 0, self.pages.clone()) {
            Some(done) => done,
            None => world.kill_for_memory(process.unwrap_or(self.space)),
        };
        self.pages.start += done.pages;
        Some(if done.pages == 0 { Op::Exit } else { Op::Busy(CpuTimeKind::Fault, done.ns) })
    }

    /// Populates the pages in no virtual time.
    pub fn populate(&mut self, world: &mut World, task: TaskId) {
        let cpu = world.tasks[task as usize].cpu;
        self.pages.start += world.place_pages(cpu, (self.space, 0), self.pages.clone());
    }
}

/// Returns the granules that hold some pages of a process's memory, at least one.
pub fn granule_range_of(world: &World, space: SpaceId, pages: Range<u64>) -> GranuleRange {
    let region = &world.spaces[space].regions[0];
    let granules = region.granules_of(pages);
    let first = granules.start.min(region.granules().saturating_sub(1));
    GranuleRange { space, region: 0, first, granules: granules.len().max(1) }
}

/// Returns the number of cache lines in a number of bytes, at least one.
pub fn line_count(world: &World, bytes: u64) -> u64 {
    (bytes / world.machine.params.line_bytes.max(1)).max(1)
}

/// Returns an operation on lines of a part that are used repeatedly.
pub fn repeated_access(part: GranuleRange, lines: u64, access: AccessPattern) -> Op {
    Op::Access(LineAccess { range: part, lines, pattern: access, reused: true })
}

/// Returns the pages of thread `number` of `of`.
pub fn thread_pages(world: &World, space: SpaceId, (number, of): (u32, u32)) -> Range<u64> {
    let pages = world.spaces[space].regions[0].pages;
    let share = |n: u32| pages * u64::from(n) / u64::from(of.max(1));
    share(number)..share(number + 1)
}
