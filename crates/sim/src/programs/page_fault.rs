//! A program that repeatedly maps memory, touches every page of it and unmaps it: `page_fault1` of
//! will-it-scale.

use std::ops::Range;

use super::fill::thread_pages;
use crate::cpu::Op;
use crate::ids::{SpaceId, TaskId};
use crate::statistics::CpuTimeKind;
use crate::world::{TaskProgram, World};

/// One thread, with its part of the memory.
#[derive(Debug)]
pub struct PageFault {
    space: SpaceId,
    pages: Range<u64>,
    /// Pages before this one have been touched, or freed.
    next_page: u64,
    is_freeing: bool,
}

impl PageFault {
    /// Creates thread `number` of `of`.
    pub fn new(world: &World, space: SpaceId, (number, of): (u32, u32)) -> Self {
        let pages = thread_pages(world, space, (number, of));
        Self { space, next_page: pages.start, pages, is_freeing: false }
    }
}

impl TaskProgram for PageFault {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        if self.pages.is_empty() {
            return Op::Exit;
        }
        if self.next_page == self.pages.end {
            self.next_page = self.pages.start;
            self.is_freeing = !self.is_freeing;
        }
        let cpu = world.tasks[task as usize].cpu;
        let pages = self.next_page..self.pages.end;
        let stretch = match self.is_freeing {
            true => world.mm().free_pages(cpu, self.space, 0, pages),
            false => world.fault_in_or_kill(cpu, self.space, 0, pages),
        };
        if stretch.pages == 0 {
            return if self.is_freeing {
                Op::Busy(CpuTimeKind::Fault, stretch.ns)
            } else {
                Op::Exit
            };
        }
        self.next_page += stretch.pages;
        if !self.is_freeing {
            world.count_work(task, stretch.pages);
        }
        Op::Busy(CpuTimeKind::Fault, stretch.ns)
    }
}
