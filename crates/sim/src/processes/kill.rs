//! Processes that are ended from outside.

use std::ops::Range;

use crate::cpu::{Task, TaskState};
use crate::ids::SpaceId;
use crate::memory::PageProgress;
use crate::world::World;

impl World {
    /// Ends a process as a signal does: each thread exits at its next operation.
    pub(crate) fn kill_process(&mut self, space: SpaceId) {
        self.spaces[space].ended = true;
        for task in self.spaces[space].tasks.clone() {
            let Task { cpu, state, .. } = self.tasks[task as usize];
            let has_decided = self.programs[task as usize].is_some();
            match state {
                TaskState::Waiting => self.wake(task),
                TaskState::Running if has_decided => self.kick_cpu(cpu, 0),
                TaskState::Running | TaskState::Ready | TaskState::Ended => {}
            }
        }
    }

    /// Faults in pages, as [`World::fault_in`] does. Without memory, the process is killed, as
    /// Linux does, and the result has no pages.
    pub(crate) fn fault_in_or_kill(
        &mut self,
        cpu: usize,
        space: SpaceId,
        region: usize,
        pages: Range<u64>,
    ) -> PageProgress {
        self.fault_in(cpu, space, region, pages).unwrap_or_else(|| self.kill_for_memory(space))
    }

    /// Kills a process for which there is no memory. It gets no pages.
    pub(crate) fn kill_for_memory(&mut self, space: SpaceId) -> PageProgress {
        self.counters.oom_kills += 1;
        self.kill_process(space);
        PageProgress::default()
    }
}
