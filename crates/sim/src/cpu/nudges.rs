//! Tasks that are to move to another CPU when they leave the kernel.

use std::collections::BTreeMap;

use crate::hardware::CpuIndexSet;
use crate::ids::TaskId;

/// Tasks that are to move when the kernel has finished its work for them.
#[derive(Debug, Default)]
pub struct Nudges {
    /// The CPU that each task is to move to.
    pub pending: BTreeMap<TaskId, usize>,
    /// The CPU that was chosen last.
    pub last_cpu: usize,
}

impl Nudges {
    /// Removes and returns the target CPU of a task.
    pub fn take_destination(&mut self, task: TaskId) -> Option<usize> {
        if self.pending.is_empty() { None } else { self.pending.remove(&task) }
    }

    /// Chooses one of some CPUs, in rotation (`cpumask_any_and_distribute`).
    pub fn next_cpu(&mut self, cpus: &CpuIndexSet) -> Option<usize> {
        let next = cpus.iter().find(|&cpu| cpu > self.last_cpu).or_else(|| cpus.iter().next());
        self.last_cpu = next.unwrap_or(self.last_cpu);
        next
    }
}
