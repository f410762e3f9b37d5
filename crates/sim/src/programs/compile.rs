//! Processes of short life, one after the other: each faults memory in bit by bit, computes in it,
//! and exits; and then the next one is forked.

use nodeward_scenario::Access;

use super::Slot;
use crate::scale::scale;
use crate::space::SpaceId;
use crate::task::{Lines, Op, Part, Program, Spent, TaskId};
use crate::world::World;

/// Into how many pieces a life is cut, each memory that is new, CPU time, and lines.
const PIECES: u64 = 8;

/// What a process is to do.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    space: SpaceId,
    /// Pages that it touches.
    pages: u64,
    compute_ns: u64,
}

impl Life {
    /// A life in an address space: shorter than the longest one by so many thousandths at most, in
    /// memory and time alike.
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

/// What comes next in a piece.
#[derive(Clone, Copy, Debug)]
enum Then {
    Touch,
    Use,
}

/// One process.
#[derive(Debug)]
pub struct Compile {
    slot: Slot,
    /// Processes that follow each other in its place; 0 for no end.
    lives: u32,
    life: Life,
    access: Access,
    /// Pages that are touched so far.
    touched: u64,
    /// Pieces that are done.
    pieces: u64,
    then: Then,
    /// Pages that are given back so far.
    freed: u64,
}

impl Compile {
    /// The process in this place of the workload.
    pub fn new(slot: Slot, lives: u32, life: Life, access: Access) -> Self {
        Self { slot, lives, life, access, touched: 0, pieces: 0, then: Then::Touch, freed: 0 }
    }

    /// Goes on with a piece: touches its memory, computes, goes through all that it has.
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

    /// All that it has, once in a life.
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
        // It exits itself, so that the next life begins when its memory is free.
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
