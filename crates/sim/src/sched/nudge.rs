//! Threads that are moved to other CPUs without a change of the CPUs that they may run on.

use std::collections::BTreeMap;

use nodeward_model::Placed;

use crate::task::{CpuSet, State, TaskId};
use crate::world::World;

/// Tasks that are to move when the kernel has finished its work for them.
#[derive(Debug, Default)]
pub(super) struct Nudges {
    pending: BTreeMap<TaskId, usize>,
    /// The CPU that was chosen last.
    last: usize,
}

impl Nudges {
    /// Removes and returns the target CPU of a task.
    pub fn take(&mut self, task: TaskId) -> Option<usize> {
        if self.pending.is_empty() { None } else { self.pending.remove(&task) }
    }

    /// Chooses one of some CPUs, in rotation (`cpumask_any_and_distribute`).
    fn choose(&mut self, cpus: &CpuSet) -> Option<usize> {
        let next = cpus.iter().find(|&cpu| cpu > self.last).or_else(|| cpus.iter().next());
        self.last = next.unwrap_or(self.last);
        next
    }
}

impl World {
    /// Returns whether a task has to leave its CPU when it leaves the kernel.
    pub(crate) fn is_nudged(&self, task: TaskId) -> bool {
        self.sched.nudges.pending.contains_key(&task)
    }

    /// Moves a task to one of these CPUs, unless it is on one of them. A task in the kernel moves
    /// when it leaves the kernel; [`World::is_nudged`] then is true.
    pub(crate) fn nudge(&mut self, task: TaskId, cpus: &CpuSet) -> Placed {
        self.sched.nudges.take(task);
        let entry = &self.tasks[task as usize];
        let fit = entry.allowed.iter().filter(|&cpu| cpus.contains(cpu) && cpu < self.cpus.len());
        let fit = CpuSet::of(fit);
        let (cpu, state) = (entry.cpu, entry.state);
        if fit.contains(cpu) {
            return Placed::Done;
        }
        // The CPU of a sleeping task is chosen when it wakes up, and by then it may run anywhere
        // again.
        let sleeps = state == State::Waiting && !fit.is_empty();
        if sleeps {
            return Placed::Asleep;
        }
        let Some(to) = self.sched.nudges.choose(&fit) else { return Placed::NotAllowed };
        self.leave_for(task, to);
        Placed::Done
    }

    /// Moves a task that can run to a CPU, as soon as it is out of the kernel.
    pub(super) fn leave_for(&mut self, task: TaskId, to: usize) {
        let entry = &self.tasks[task as usize];
        let (cpu, place) = (entry.cpu, (!entry.urgent, entry.vruntime_ns, task));
        match entry.state {
            State::Waiting | State::Ended => {}
            State::Ready => {
                self.take_from_line(&place, cpu);
                self.send(task, to);
            }
            State::Running => match self.displace(cpu) {
                Some(task) => self.send(task, to),
                None => {
                    self.sched.nudges.pending.insert(task, to);
                    self.reschedule(cpu);
                }
            },
        }
    }
}
