//! A program that repeatedly maps memory, touches every page of it and unmaps it: `page_fault1` of
//! will-it-scale.

use std::ops::Range;

use crate::space::SpaceId;
use crate::task::{Op, Program, Spent, TaskId};
use crate::world::World;

/// One thread, with its part of the memory.
#[derive(Debug)]
pub struct PageFault {
    space: SpaceId,
    pages: Range<u64>,
    /// Pages before this one have been touched, or freed.
    at: u64,
    frees: bool,
}

impl PageFault {
    /// Creates thread `number` of `of`.
    pub fn new(world: &World, space: SpaceId, (number, of): (u32, u32)) -> Self {
        let pages = super::share(world, space, (number, of));
        Self { space, at: pages.start, pages, frees: false }
    }
}

impl Program for PageFault {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        if self.pages.is_empty() {
            return Op::Exit;
        }
        if self.at == self.pages.end {
            self.at = self.pages.start;
            self.frees = !self.frees;
        }
        let cpu = world.tasks[task as usize].cpu;
        let pages = self.at..self.pages.end;
        let stretch = match self.frees {
            true => world.free_pages(cpu, self.space, 0, pages),
            false => world.fault_in(cpu, self.space, 0, pages),
        };
        if stretch.pages == 0 {
            return if self.frees { Op::Busy(Spent::Fault, stretch.ns) } else { Op::Exit };
        }
        self.at += stretch.pages;
        if !self.frees {
            world.done(task, stretch.pages);
        }
        Op::Busy(Spent::Fault, stretch.ns)
    }
}
