//! Interference with a process that is being moved: its pages are pinned, shared or made huge,
//! nodes fill up, it ends. For tests of everything that moves memory.

use nodeward_model::{NodeId, Pid};

use super::sim_machine::SimMachine;
use crate::cpu::{Op, Task};
use crate::ids::{SpaceId, TaskId};
use crate::memory::{MemoryRegion, PageByte};
use crate::statistics::CpuTimeKind;
use crate::world::{TaskProgram, World};

impl SimMachine {
    /// Pins the page at an address so that it cannot move. Returns `false` if there is no such
    /// page.
    pub fn pin(&self, pid: Pid, address: u64) -> bool {
        self.with_space(pid, |world, space| {
            let mut regions = world.spaces[space].regions.iter_mut();
            regions.find_map(|region| {
                let page = region.page_at(address.checked_sub(region.start)?)?;
                Some(region.pinned.insert(page))
            })
        })
        .flatten()
        .is_some()
    }

    /// Lets another process map all memory of this one. Returns `false` if there is no such
    /// process.
    pub fn mark_shared(&self, pid: Pid) -> bool {
        let share = |world: &mut World, space: SpaceId| {
            world.spaces[space].regions.iter_mut().for_each(|region| region.shared = true);
        };
        self.with_space(pid, share).is_some()
    }

    /// Makes huge pages of all whole chunks of a process whose pages are on one node. Returns their
    /// number.
    pub fn make_huge(&self, pid: Pid) -> u64 {
        self.with_space(pid, |world, space| {
            let regions = world.spaces[space].regions.iter_mut();
            regions.map(make_huge).sum()
        })
        .unwrap_or(0)
    }

    /// Takes free pages from a node until only `pages` are left.
    pub fn limit_free_pages(&self, node: NodeId, pages: u64) {
        let mut lockstep = self.shared.lock();
        let world = &mut lockstep.world;
        if let Some(index) = world.machine.index_of(node) {
            let free = &mut world.memory.zones[index].free_pages;
            let taken = free.saturating_sub(pages);
            *free -= taken;
            world.memory.kernel_pages[index] += taken;
        }
    }

    /// Ends a process at a time, in virtual nanoseconds. Returns `false` if there is no such
    /// process.
    pub fn kill_at(&self, pid: Pid, at_ns: u64) -> bool {
        let plan = |world: &mut World, space: SpaceId| {
            world.start_kernel_task(None, Box::new(KillAt { space, at_ns }));
        };
        self.with_space(pid, plan).is_some()
    }

    /// Lets a thread of a process start another one, which works for `ns` nanoseconds. Returns its
    /// tid; `None` if there is no such thread.
    pub fn start_thread(&self, pid: Pid, starter: u32, ns: u64) -> Option<u32> {
        self.with_space(pid, |world, space| {
            let starter = world.task_of_tid(space, starter)?;
            let task = Task {
                space: Some(space),
                ..Task::new(world.tasks[starter as usize].allowed.clone())
            };
            let program = Box::new(BusyFor(Some(ns)));
            let task = world.start_task_from(Some(starter), task, program);
            Some(world.tid(task))
        })
        .flatten()
    }

    fn with_space<T>(&self, pid: Pid, act: impl FnOnce(&mut World, SpaceId) -> T) -> Option<T> {
        let mut lockstep = self.shared.lock();
        let world = &mut lockstep.world;
        let space = world.spaces.iter().position(|space| space.pid == pid)?;
        if world.spaces[space].ended {
            return None;
        }
        Some(act(world, space))
    }
}

fn make_huge(region: &mut MemoryRegion) -> u64 {
    let size = region.chunk_pages();
    let whole = (0..region.pages / size).map(|chunk| chunk * size);
    let alike = |&first: &u64| {
        let byte = region.page(first);
        byte != PageByte::ABSENT && (first..first + size).all(|page| region.page(page) == byte)
    };
    let chunks: Vec<_> = whole.filter(alike).collect();
    chunks.iter().for_each(|&first| region.set_huge(first, region.page(first)));
    chunks.len() as u64
}

/// Program that works once and ends.
struct BusyFor(Option<u64>);

impl TaskProgram for BusyFor {
    fn next(&mut self, _: &mut World, _: TaskId) -> Op {
        self.0.take().map_or(Op::Exit, |ns| Op::Busy(CpuTimeKind::User, ns))
    }
}

/// Program that waits and then ends a process.
struct KillAt {
    space: SpaceId,
    at_ns: u64,
}

impl TaskProgram for KillAt {
    fn next(&mut self, world: &mut World, _task: TaskId) -> Op {
        if world.now_ns < self.at_ns {
            return Op::Sleep(self.at_ns);
        }
        world.kill_process(self.space);
        Op::Exit
    }
}
