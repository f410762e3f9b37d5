//! Processes of short life, one after the other: faults memory in, computes in it, exits; and then
//! the next one is forked.

use nodeward_scenario::Access;

use super::Slot;
use crate::space::SpaceId;
use crate::task::{Lines, Op, Part, Program, Spent, TaskId};
use crate::world::World;

/// Into how many pieces the work of a life is cut, each CPU time and then lines.
const PIECES: u64 = 4;

/// One process.
#[derive(Debug)]
pub struct Compile {
    slot: Slot,
    space: SpaceId,
    compute_ns: u64,
    access: Access,
    /// Pages that are touched so far.
    touched: u64,
    /// Halves of pieces that are done.
    halves: u64,
    /// Pages that are given back so far.
    freed: u64,
}

impl Compile {
    /// The process in this place of the workload.
    pub fn new(slot: Slot, space: SpaceId, compute_ns: u64, access: Access) -> Self {
        Self { slot, space, compute_ns, access, touched: 0, halves: 0, freed: 0 }
    }

    /// Computes, or goes through all of the memory once.
    fn work(&mut self, world: &World) -> Op {
        self.halves += 1;
        if self.halves % 2 == 1 {
            return Op::Busy(Spent::User, self.compute_ns / PIECES);
        }
        let region = &world.spaces[self.space].regions[0];
        let params = &world.machine.params;
        let part = Part { space: self.space, region: 0, first: 0, granules: region.granules() };
        let lines = region.pages * params.page_bytes / params.line_bytes.max(1) / PIECES;
        Op::Lines(Lines { part, lines, access: self.access, reused: true })
    }
}

impl Program for Compile {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        let cpu = world.tasks[task as usize].cpu;
        let pages = world.spaces[self.space].regions[0].pages;
        if self.touched < pages {
            let stretch = world.fault_in(cpu, self.space, 0, self.touched..pages);
            self.touched += stretch.pages;
            return match stretch.pages {
                0 => Op::Exit,
                _ => Op::Busy(Spent::Fault, stretch.ns),
            };
        }
        if self.halves < 2 * PIECES {
            return self.work(world);
        }
        // It exits itself, so that the next life begins when its memory is free.
        if self.freed < pages {
            let stretch = world.free_pages(cpu, self.space, 0, self.freed..pages);
            self.freed += stretch.pages;
            return Op::Busy(Spent::Fault, stretch.ns);
        }
        world.done(task, 1);
        super::start_life(world, self.slot, cpu);
        Op::Exit
    }
}
