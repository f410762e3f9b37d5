//! Threads that are moved to other CPUs without a change of the CPUs that they may run on.

use nodeward_model::AffinityOutcome;

use crate::cpu::TaskState;
use crate::hardware::CpuIndexSet;
use crate::ids::TaskId;
use crate::world::World;

impl World {
    /// Returns whether a task has to leave its CPU when it leaves the kernel.
    pub(crate) fn is_nudged(&self, task: TaskId) -> bool {
        self.sched.nudges.pending.contains_key(&task)
    }

    /// Moves a task to one of these CPUs, unless it is on one of them. A task in the kernel moves
    /// when it leaves the kernel; [`World::is_nudged`] then is true.
    pub(crate) fn nudge(&mut self, task: TaskId, cpus: &CpuIndexSet) -> AffinityOutcome {
        self.sched.nudges.take_destination(task);
        let entry = &self.tasks[task as usize];
        let fit = entry.allowed.iter().filter(|&cpu| cpus.contains(cpu) && cpu < self.cpus.len());
        let fit = CpuIndexSet::of(fit);
        let (cpu, state) = (entry.cpu, entry.state);
        if fit.contains(cpu) {
            return AffinityOutcome::Done;
        }
        // The CPU of a sleeping task is chosen when it wakes up, and by then it may run anywhere
        // again.
        let sleeps = state == TaskState::Waiting && !fit.is_empty();
        if sleeps {
            return AffinityOutcome::Asleep;
        }
        let Some(to) = self.sched.nudges.next_cpu(&fit) else { return AffinityOutcome::NotAllowed };
        self.migrate_task_to(task, to);
        AffinityOutcome::Done
    }

    /// Moves a task that can run to a CPU, as soon as it is out of the kernel.
    pub(crate) fn migrate_task_to(&mut self, task: TaskId, to: usize) {
        let entry = &self.tasks[task as usize];
        let (cpu, place) = (entry.cpu, (!entry.urgent, entry.vruntime_ns, task));
        match entry.state {
            TaskState::Waiting | TaskState::Ended => {}
            TaskState::Ready => {
                self.dequeue(&place, cpu);
                self.move_detached_task(task, to);
            }
            TaskState::Running => match self.preempt(cpu) {
                Some(task) => self.move_detached_task(task, to),
                None => {
                    self.sched.nudges.pending.insert(task, to);
                    self.resched_cpu(cpu);
                }
            },
        }
    }
}
