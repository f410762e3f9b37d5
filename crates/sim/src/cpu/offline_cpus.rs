//! The CPUs that are offline, and the tasks that these CPUs are taken from.

use std::collections::BTreeMap;

use super::task::{Task, TaskState};
use crate::hardware::CpuIndexSet;
use crate::ids::TaskId;

/// The CPUs that are offline.
#[derive(Debug, Default)]
pub struct OfflineCpus {
    cpus: CpuIndexSet,
    count: usize,
    /// The CPUs that a task could use if all CPUs were online, for tasks where that makes a
    /// difference.
    requested: BTreeMap<TaskId, CpuIndexSet>,
}

impl OfflineCpus {
    /// Marks a CPU as offline or online.
    pub fn set_offline(&mut self, cpu: usize, is_off: bool) {
        if self.cpus.contains(cpu) != is_off {
            self.cpus.set(cpu, is_off);
            self.count = if is_off { self.count + 1 } else { self.count - 1 };
        }
    }

    /// Returns whether a CPU is online.
    pub fn is_online(&self, cpu: usize) -> bool {
        !self.cpus.contains(cpu)
    }

    /// Returns the number of CPUs that are offline.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Forgets the earlier allowed CPUs of a task, because a new set was given to it.
    pub fn forget_requested(&mut self, task: TaskId) {
        self.requested.remove(&task);
    }

    /// Removes offline CPUs from a task's allowed set. A task without any other of `cpus` CPUs may
    /// run anywhere, as in Linux (`select_fallback_rq`).
    pub fn restrict(&mut self, id: TaskId, task: &mut Task, cpus: usize) {
        let Self { cpus: off, count, requested: wanted } = self;
        if *count == 0 && wanted.is_empty() || task.state == TaskState::Ended {
            wanted.remove(&id);
            return;
        }
        let all = wanted.remove(&id).unwrap_or_else(|| task.allowed.clone());
        let fit = CpuIndexSet::of(all.iter().filter(|&cpu| !off.contains(cpu)));
        task.allowed = match fit.is_empty() {
            true => CpuIndexSet::of((0..cpus).filter(|&cpu| !off.contains(cpu))),
            false => fit,
        };
        if task.allowed != all {
            wanted.insert(id, all);
        }
    }
}
