//! The end of processes: the last thread to exit frees all pages.

use nodeward_machine::ThreadRecord;

use crate::cpu::Op;
use crate::hardware::CpuIndexSet;
use crate::ids::{SpaceId, TaskId};
use crate::statistics::CpuTimeKind;
use crate::world::{StreamWindow, TaskProgram, World};

/// Program of the last thread of a process.
#[derive(Debug)]
struct ExitProgram {
    space: SpaceId,
    region: usize,
    page: u64,
}

impl TaskProgram for ExitProgram {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        let cpu = world.tasks[task as usize].cpu;
        while let Some(region) = world.spaces[self.space].regions.get(self.region) {
            let pages = region.pages;
            if self.page < pages {
                let done = world.mm().free_pages(cpu, self.space, self.region, self.page..pages);
                self.page += done.pages;
                if done.ns > 0 {
                    return Op::Busy(CpuTimeKind::Fault, done.ns);
                }
                continue;
            }
            self.region += 1;
            self.page = 0;
        }
        world.discard_streams(self.space);
        world.unmap_segments(self.space);
        world.memory.freed_in_flight.forget_space(self.space);
        if let Some(numa) = &mut world.numa_balancing {
            numa.forget_space(self.space);
        }
        // Where processes are short-lived, many have ended: little state is kept of each.
        world.spaces[self.space].regions.iter_mut().for_each(|region| region.clear());
        world.spaces[self.space].tlb_cpus = CpuIndexSet::default();
        world.tasks[task as usize].allowed = CpuIndexSet::default();
        Op::Exit
    }
}

impl World {
    /// Notes that a process has ended, where the run lasts until all have.
    fn note_work_end(&mut self) {
        if self.scenario().until_done {
            self.work_ends.first_ns.get_or_insert(self.now_ns);
            if self.all_processes_ended() {
                self.work_ends.last_ns.get_or_insert(self.now_ns);
            }
        }
    }

    /// Returns whether a task's process was ended while the task was still in it.
    pub(crate) fn is_exiting(&self, task: TaskId) -> bool {
        let space = self.tasks[task as usize].space.map(|space| &self.spaces[space]);
        space.is_some_and(|space| space.ended && space.tasks.contains(&task))
    }

    /// Removes a task from its process. Returns its remaining work: the last task frees all pages.
    pub(crate) fn exit_task(&mut self, task: TaskId) -> Option<Box<dyn TaskProgram>> {
        let space = self.tasks[task as usize].space?;
        let entry = &mut self.spaces[space];
        let place = entry.tasks.iter().position(|&other| other == task)?;
        entry.tasks.remove(place);
        if !self.thread_log.is_empty() {
            let (pid, tid) = (self.spaces[space].pid, self.tid(task));
            self.thread_log.push(ThreadRecord::Ended { pid, tid });
        }
        if let Some(numa) = &mut self.numa_balancing {
            numa.forget_task(task, Some(space));
        }
        let entry = &mut self.spaces[space];
        entry.exited_cpu_time_ns += self.tasks[task as usize].cpu_time_ns;
        if !entry.tasks.is_empty() {
            return None;
        }
        entry.ended = true;
        self.unshare_from_parent(space);
        self.note_work_end();
        Some(Box::new(ExitProgram { space, region: 0, page: 0 }))
    }

    /// Frees the buffers in transit of a process that has ended.
    fn discard_streams(&mut self, space: SpaceId) {
        for window in self.streams.iter_mut().filter(|window| window.space == space) {
            let StreamWindow { buffer_pages: run, unread, .. } = std::mem::take(window);
            for (node, count) in unread {
                self.memory.discard_buffers(node, run, count);
            }
        }
    }
}
