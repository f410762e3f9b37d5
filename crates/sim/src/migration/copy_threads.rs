//! Copies by threads: by the mover itself, or by urgent threads on CPUs of the destination.
//!
//! A copy runs at the rate that memory, links and its core allow, turn by turn. Each helping CPU
//! has one copy thread and a queue of parts, like the kernel's work queues. The mover hands parts
//! out one by one and waits for the last.

use crate::cpu::{CopyPart, Op, Task};
use crate::hardware::CpuIndexSet;
use crate::ids::TaskId;
use crate::world::{TaskProgram, World};

impl World {
    /// Returns the number of parts that a copy to a node is cut into.
    pub(crate) fn copier_count(&self, to: usize) -> usize {
        match self.machine.params.dma_channels {
            0 => self.copy_helpers.copier_cpus[to].len().max(1),
            channels => channels as usize,
        }
    }

    /// Returns the number of parts that a mover waits for.
    pub(crate) fn pending_parts(&self, mover: TaskId) -> u32 {
        self.copy_helpers.pending_parts.get(&mover).copied().unwrap_or(0)
    }

    /// Adds one part for a mover to wait for.
    pub(crate) fn add_pending_part(&mut self, mover: TaskId) {
        *self.copy_helpers.pending_parts.entry(mover).or_default() += 1;
    }

    /// Completes one part; the mover continues after the last.
    pub(crate) fn finish_part(&mut self, mover: TaskId) {
        let pending = self.copy_helpers.pending_parts.entry(mover).or_default();
        *pending = pending.saturating_sub(1);
        if *pending == 0 {
            self.copy_helpers.pending_parts.remove(&mover);
            self.copy_helpers.parts_handed_out.remove(&mover);
            self.wake(mover);
        }
    }

    /// Hands a part to the next of the CPUs that copy to a node.
    pub(crate) fn queue_for_helper(&mut self, mover: TaskId, to: usize, part: CopyPart) {
        self.add_pending_part(mover);
        let helpers = &mut self.copy_helpers;
        let handed = helpers.parts_handed_out.entry(mover).or_default();
        let places = &helpers.copier_cpus[to];
        let cpu = places[*handed % places.len()];
        *handed += 1;
        helpers.queues.entry(cpu).or_default().push_back((mover, part));
        match helpers.threads.get(&cpu) {
            Some(&thread) => self.wake(thread),
            None => {
                let helper = CopyHelper { cpu, part: Vec::new(), mover: None };
                let thread = self.start_urgent(cpu, Box::new(helper));
                self.copy_helpers.threads.insert(cpu, thread);
            }
        }
    }

    fn start_urgent(&mut self, cpu: usize, program: Box<dyn TaskProgram>) -> TaskId {
        let mut task = Task::new(CpuIndexSet::of([cpu]));
        task.urgent = true;
        self.start_task(task, program)
    }
}

/// Program that copies the parts in the queue of its CPU.
struct CopyHelper {
    cpu: usize,
    part: CopyPart,
    mover: Option<TaskId>,
}

impl TaskProgram for CopyHelper {
    fn next(&mut self, world: &mut World, _task: TaskId) -> Op {
        loop {
            if let Some(copying) = self.part.pop() {
                return Op::Copy(copying);
            }
            if let Some(mover) = self.mover.take() {
                world.finish_part(mover);
            }
            let queue = world.copy_helpers.queues.entry(self.cpu).or_default();
            let Some((mover, part)) = queue.pop_front() else { return Op::Wait };
            (self.mover, self.part) = (Some(mover), part);
        }
    }
}
