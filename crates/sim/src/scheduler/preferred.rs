//! Moves threads to the node that they prefer by their hint faults: to an idle CPU there, or in
//! exchange for a thread that gains by it or loses less (`task_numa_migrate`).

use crate::ids::{SpaceId, TaskId};
use crate::world::World;

/// A smaller gain, per 1000 faults, is not worth an exchange (`SMALLIMP`).
const SMALL_IMPROVEMENT: i64 = 30;

impl World {
    /// Moves the thread whose turn begins to its preferred node, if a CPU is idle there or another
    /// thread can be exchanged.
    pub(crate) fn migrate_to_preferred(&mut self, task: TaskId, space: SpaceId, to: usize) {
        let from_cpu = self.tasks[task as usize].cpu;
        let from = self.layout.node_of(from_cpu);
        let allowed = &self.tasks[task as usize].allowed;
        let found = match self.idle_cpu_on(to, from_cpu, allowed) {
            Some(cpu) => Some((cpu, None)),
            None => self.best_exchange(task, space, (from, to)),
        };
        let Some((cpu, other)) = found else { return };
        if let Some(other) = other {
            self.counters.numa_swaps += 1;
            self.migrate_task_to(other, from_cpu);
        }
        self.counters.numa_moves += 1;
        self.migrate_task_to(task, cpu);
    }

    /// Returns the CPU of a node with the most gain for a thread, and the thread to exchange.
    fn best_exchange(
        &self,
        task: TaskId,
        space: SpaceId,
        (from, to): (usize, usize),
    ) -> Option<(usize, Option<TaskId>)> {
        let gain = self.numa_gain_milli(task, space, (from, to));
        let may_add = !self.worsens_imbalance(from, to);
        let from_cpu = self.tasks[task as usize].cpu;
        let (mut best, mut best_gain) = (None, 0);
        for &cpu in &self.sched.online_cpus[to] {
            let Some(other) = self.cpus[cpu].running else { continue };
            let entry = &self.tasks[other as usize];
            if !self.tasks[task as usize].allowed.contains(cpu) {
                continue;
            }
            let both = entry.space.map(|of| gain + self.numa_gain_milli(other, of, (to, from)));
            let both = both.filter(|_| entry.allowed.contains(from_cpu) && !entry.urgent);
            let both = both.map(|both| {
                let is_kin = entry.space == Some(space);
                let both = both - if is_kin || entry.home == Some(to) { both / 16 } else { 0 };
                both + if entry.home == Some(from) { both / 8 } else { 0 }
            });
            if may_add && gain > both.unwrap_or(0) && gain > best_gain {
                (best, best_gain) = (Some((cpu, None)), gain);
            } else if let Some(both) = both
                && both >= SMALL_IMPROVEMENT
                && both > best_gain + SMALL_IMPROVEMENT / 2
            {
                (best, best_gain) = (Some((cpu, Some(other))), both);
            }
        }
        best
    }

    /// Returns a thread's gain, per 1000 faults, from moving between two nodes.
    fn numa_gain_milli(&self, task: TaskId, space: SpaceId, (from, to): (usize, usize)) -> i64 {
        let Some(numa) = self.numa_balancing.as_ref() else { return 0 };
        let Some(faults) = numa.faults(task) else { return 0 };
        match numa.group(space).filter(|_| faults.in_group) {
            Some(group) => group.memory_share_milli(to) - group.memory_share_milli(from),
            None => faults.memory_share_milli(to) - faults.memory_share_milli(from),
        }
    }

    /// Returns whether one task more on `to` would make the load of the nodes less even
    /// (`load_too_imbalanced`).
    fn worsens_imbalance(&self, from: usize, to: usize) -> bool {
        let cpus = |node: usize| self.sched.online_cpus[node].len() as i64;
        let tasks = |node: usize| self.sched.tasks(node) as i64;
        let uneven =
            |more: i64| ((tasks(to) + more) * cpus(from) - (tasks(from) - more) * cpus(to)).abs();
        uneven(1) > uneven(0)
    }
}
