//! Threads go to the node that they prefer by their hint faults: to a CPU without work there, or in
//! exchange for a thread that gains by it or loses less (`task_numa_migrate`).

use crate::space::SpaceId;
use crate::task::TaskId;
use crate::world::World;

/// Less of 1000 faults is not worth an exchange (`SMALLIMP`).
const SMALL: i64 = 30;

impl World {
    /// Sends the thread of the turn that begins to the node that it prefers, if somebody makes
    /// room or there is some.
    pub(crate) fn go_to_preferred(&mut self, task: TaskId, space: SpaceId, to: usize) {
        let from_cpu = self.tasks[task as usize].cpu;
        let from = self.layout.node_of(from_cpu);
        let allowed = &self.tasks[task as usize].allowed;
        let found = match self.idle_on(to, from_cpu, allowed) {
            Some(cpu) => Some((cpu, None)),
            None => self.best_exchange(task, space, (from, to)),
        };
        let Some((cpu, other)) = found else { return };
        if let Some(other) = other {
            self.counters.numa_swaps += 1;
            self.leave_for(other, from_cpu);
        }
        self.counters.numa_moves += 1;
        self.leave_for(task, cpu);
    }

    /// The CPU of a node to which a thread goes with most gain, and who makes room for it.
    fn best_exchange(
        &self,
        task: TaskId,
        space: SpaceId,
        (from, to): (usize, usize),
    ) -> Option<(usize, Option<TaskId>)> {
        let gain = self.gain(task, space, (from, to));
        let may_add = !self.worsens(from, to);
        let from_cpu = self.tasks[task as usize].cpu;
        let (mut best, mut best_gain) = (None, 0);
        for &cpu in &self.sched.on[to] {
            let Some(other) = self.cpus[cpu].running else { continue };
            let entry = &self.tasks[other as usize];
            if !self.tasks[task as usize].allowed.contains(cpu) {
                continue;
            }
            let both = entry.space.map(|of| gain + self.gain(other, of, (to, from)));
            let both = both.filter(|_| entry.allowed.contains(from_cpu) && !entry.urgent);
            let both = both.map(|both| {
                let is_kin = entry.space == Some(space);
                let both = both - if is_kin || entry.home == Some(to) { both / 16 } else { 0 };
                both + if entry.home == Some(from) { both / 8 } else { 0 }
            });
            if may_add && gain > both.unwrap_or(0) && gain > best_gain {
                (best, best_gain) = (Some((cpu, None)), gain);
            } else if let Some(both) = both
                && both >= SMALL
                && both > best_gain + SMALL / 2
            {
                (best, best_gain) = (Some((cpu, Some(other))), both);
            }
        }
        best
    }

    /// What a thread gains of 1000 faults by going from a node to another one.
    fn gain(&self, task: TaskId, space: SpaceId, (from, to): (usize, usize)) -> i64 {
        let Some(numa) = self.numa.as_ref() else { return 0 };
        let Some(faults) = numa.faults(task) else { return 0 };
        match numa.group(space).filter(|_| faults.in_group) {
            Some(group) => group.weight(to) - group.weight(from),
            None => faults.weight(to) - faults.weight(from),
        }
    }

    /// Whether nodes would be less even with one task more on one of them
    /// (`load_too_imbalanced`).
    fn worsens(&self, from: usize, to: usize) -> bool {
        let cpus = |node: usize| self.sched.on[node].len() as i64;
        let tasks = |node: usize| self.sched.tasks(node) as i64;
        let uneven =
            |more: i64| ((tasks(to) + more) * cpus(from) - (tasks(from) - more) * cpus(to)).abs();
        uneven(1) > uneven(0)
    }
}
