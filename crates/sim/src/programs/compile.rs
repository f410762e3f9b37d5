//! Short-lived processes, one after the other. Each faults in its memory bit by bit, computes on
//! it, and exits. The next one is then forked.

use nodeward_scenario::Access;

use super::Slot;
use crate::scale::scale;
use crate::space::SpaceId;
use crate::task::{Lines, Op, Part, Program, Spent, TaskId};
use crate::world::World;

/// Number of pieces of a life; each piece faults in new memory, computes and goes through lines.
const PIECES: u64 = 8;

/// The work of one process.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    space: SpaceId,
    /// Pages that it touches.
    pages: u64,
    compute_ns: u64,
}

impl Life {
    /// Draws a life in an address space: up to `varies_milli` thousandths shorter than the longest
    /// one, in memory and time alike.
    pub fn draw(world: &mut World, space: SpaceId, compute_ns: u64, varies_milli: u32) -> Self {
        let longest = Self { space, pages: world.spaces[space].regions[0].pages, compute_ns };
        if varies_milli == 0 {
            return longest;
        }
        let less = world.chance.next_value() % (u64::from(varies_milli) + 1);
        let part = |whole: u64| scale(whole, 1000 - less.min(1000), 1000).max(1);
        Self { space, pages: part(longest.pages), compute_ns: part(compute_ns) }
    }
}

/// The next step in a piece.
#[derive(Clone, Copy, Debug)]
enum Then {
    Touch,
    Use,
}

/// One process.
#[derive(Debug)]
pub struct Compile {
    slot: Slot,
    /// Number of processes that follow each other in its place; 0 for no end.
    lives: u32,
    life: Life,
    access: Access,
    /// Pages touched so far.
    touched: u64,
    /// Pieces completed.
    pieces: u64,
    then: Then,
    /// Pages freed so far.
    freed: u64,
}

impl Compile {
    /// Creates the process of a slot of the workload.
    pub fn new(slot: Slot, lives: u32, life: Life, access: Access) -> Self {
        Self { slot, lives, life, access, touched: 0, pieces: 0, then: Then::Touch, freed: 0 }
    }

    /// Continues a piece: touches its memory, computes, goes through all that it has.
    fn work(&mut self, world: &mut World, cpu: usize) -> Op {
        let wanted = self.life.pages * (self.pieces + 1) / PIECES;
        match self.then {
            Then::Touch if self.touched < wanted => {
                let stretch = world.fault_in(cpu, self.life.space, 0, self.touched..wanted);
                self.touched += stretch.pages;
                match stretch.pages {
                    0 => Op::Exit,
                    _ => Op::Busy(Spent::Fault, stretch.ns),
                }
            }
            Then::Touch => {
                self.then = Then::Use;
                Op::Busy(Spent::User, self.life.compute_ns / PIECES)
            }
            Then::Use => {
                self.then = Then::Touch;
                self.pieces += 1;
                self.lines(world)
            }
        }
    }

    /// Returns an operation on all its memory, once per life.
    fn lines(&self, world: &World) -> Op {
        let (space, params) = (self.life.space, &world.machine.params);
        let region = &world.spaces[space].regions[0];
        let granules = region.granules_of(0..self.touched.max(1)).len().max(1);
        let part = Part { space, region: 0, first: 0, granules };
        let lines = self.touched * params.page_bytes / params.line_bytes.max(1) / PIECES;
        Op::Lines(Lines { part, lines, access: self.access, reused: true })
    }
}

impl Program for Compile {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        let cpu = world.tasks[task as usize].cpu;
        if self.pieces < PIECES {
            return self.work(world, cpu);
        }
        // It frees its own memory, so that the next life begins when that is free.
        if self.freed < self.touched {
            let pages = self.freed..self.touched;
            let stretch = world.free_pages(cpu, self.life.space, 0, pages);
            self.freed += stretch.pages;
            return Op::Busy(Spent::Fault, stretch.ns);
        }
        world.done(task, 1);
        let next = Slot { life: self.slot.life.saturating_add(1), ..self.slot };
        if self.lives == 0 || next.life < self.lives {
            super::start_life(world, next, task);
        }
        Op::Exit
    }
}
