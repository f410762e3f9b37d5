//! A program that streams through memory from end to end, repeatedly, for a number of passes or
//! without end.

use nodeward_scenario::AccessPattern;

use super::fill::{Fill, granule_range_of, line_count, repeated_access, thread_pages};
use crate::arithmetic::mul_div;
use crate::cpu::{LineAccess, Op};
use crate::ids::{SpaceId, TaskId};
use crate::memory::GranuleRange;
use crate::world::{TaskProgram, World};

/// One thread, with its part of the memory.
#[derive(Debug)]
pub struct Triad {
    access: AccessPattern,
    part: GranuleRange,
    shared: GranuleRange,
    fill: Fill,
    /// Lines of a pass through its part.
    lines: u64,
    /// Lines of what it shares that follow each pass.
    shared_lines: u64,
    shared_next: bool,
    /// Passes that it has begun, and those after which it ends; 0 for no end.
    begun: u64,
    passes: u64,
}

impl Triad {
    /// Creates a thread with the places of its own part and of the one that it shares. Of 1000
    /// lines `shared_milli`, fewer than that, lie in the latter, and are only read. It ends after
    /// `passes`; after none if they are 0.
    pub fn new(
        world: &World,
        space: SpaceId,
        [place, shared_place]: [(u32, u32); 2],
        access: AccessPattern,
        (shared_milli, passes): (u32, u64),
    ) -> Self {
        let fill = Fill::new(world, space, place);
        let pages = fill.pages();
        let bytes = (pages.end - pages.start) * world.machine.params.page_bytes;
        let (part, lines) = (granule_range_of(world, space, pages), line_count(world, bytes));
        let shared = granule_range_of(world, space, thread_pages(world, space, shared_place));
        let own_milli = 1000 - u64::from(shared_milli).min(999);
        let shared_lines = mul_div(lines, 1000 - own_milli, own_milli);
        let (shared_next, begun) = (false, 0);
        Self { access, part, shared, fill, lines, shared_lines, shared_next, begun, passes }
    }
}

impl TaskProgram for Triad {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        if let Some(op) = self.fill.next(world, task) {
            return op;
        }
        let is_shared = self.shared_next;
        self.shared_next = !is_shared && self.shared_lines > 0;
        if is_shared {
            let reads = AccessPattern { writes_milli: 0, ..self.access };
            return repeated_access(self.shared, self.shared_lines, reads);
        }
        if self.passes > 0 && self.begun == self.passes {
            return Op::Exit;
        }
        self.begun += 1;
        let Self { part: range, lines, access: pattern, .. } = *self;
        Op::Access(LineAccess { range, lines, pattern, reused: false })
    }

    fn populate(&mut self, world: &mut World, task: TaskId) {
        self.fill.populate(world, task);
    }
}
