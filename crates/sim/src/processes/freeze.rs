//! Frozen processes, as by the cgroup freezer: their threads stop when they leave the kernel, and
//! resume where they were when the process thaws. A frozen process can still be ended.

use std::collections::VecDeque;

use crate::cpu::{Op, TaskState};
use crate::ids::{SpaceId, TaskId};
use crate::world::{TaskProgram, World};

impl World {
    /// Freezes processes for `for_ns`. Processes that are frozen already keep their own end time.
    pub(crate) fn freeze_all(&mut self, spaces: &VecDeque<SpaceId>, for_ns: u64) {
        let fresh: Vec<_> =
            spaces.iter().copied().filter(|&space| !self.spaces[space].frozen).collect();
        for &space in &fresh {
            self.spaces[space].frozen = true;
            for task in self.spaces[space].tasks.clone() {
                let entry = &self.tasks[task as usize];
                if entry.state == TaskState::Running {
                    self.kick_cpu(entry.cpu, 0);
                }
            }
        }
        let until_ns = self.now_ns.saturating_add(for_ns);
        self.start_kernel_task(None, Box::new(Thaw { spaces: fresh, until_ns }));
    }

    /// Returns whether a task has to stop when it leaves the kernel.
    pub(crate) fn is_frozen(&self, task: TaskId) -> bool {
        self.tasks[task as usize].space.is_some_and(|space| self.spaces[space].frozen)
    }

    /// Records that a task has stopped until its process thaws.
    pub(crate) fn record_frozen(&mut self, task: TaskId) {
        let Some(space) = self.tasks[task as usize].space else { return };
        let stopped = &mut self.spaces[space].frozen_tasks;
        if !stopped.contains(&task) {
            stopped.push(task);
        }
    }

    fn thaw(&mut self, space: SpaceId) {
        self.spaces[space].frozen = false;
        for task in std::mem::take(&mut self.spaces[space].frozen_tasks) {
            if self.tasks[task as usize].state == TaskState::Waiting {
                self.make_runnable(task);
            }
        }
    }
}

/// Program that waits and then thaws processes.
struct Thaw {
    spaces: Vec<SpaceId>,
    until_ns: u64,
}

impl TaskProgram for Thaw {
    fn next(&mut self, world: &mut World, _: TaskId) -> Op {
        if world.now_ns < self.until_ns {
            return Op::Sleep(self.until_ns);
        }
        self.spaces.iter().for_each(|&space| world.thaw(space));
        Op::Exit
    }
}
