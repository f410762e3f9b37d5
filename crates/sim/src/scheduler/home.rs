//! Scheduler decisions that use the home nodes of tasks.

use super::task_moves::TaskFilter;
use crate::ids::TaskId;
use crate::world::World;

/// Maximum number of tasks brought home in one pass.
const TASKS_HOME_MAX: usize = 32;

impl World {
    /// Pulls a task whose home is this node and that waits on another node, to an idle CPU.
    pub(crate) fn pull_home(&mut self, node: usize, cpu: usize) -> Option<TaskId> {
        (0..self.sched.nodes_by_distance[node].len()).find_map(|at| {
            let from = self.sched.nodes_by_distance[node][at];
            let any = self.sched.nodes[from].queued_by_home[node] > 0;
            if any { self.pull_from_node(from, cpu, TaskFilter::HomeOn(node)) } else { None }
        })
    }

    /// Brings tasks home from other nodes: first those that wait, then those that run. If that
    /// makes this node the fuller one, a task moves the other way in exchange.
    pub(crate) fn bring_home(&mut self, node: usize) {
        // The patches of 2012 move one task per pass, by an artificial imbalance of one.
        let most = if self.sched.sched_numa.is_some() { 1 } else { TASKS_HOME_MAX };
        for at in 1..self.sched.nodes_by_distance[node].len() {
            let other = self.sched.nodes_by_distance[node][at];
            let _all = (0..most).all(|_| self.bring_queued_home(node, other));
            let _all = (0..most).all(|_| self.bring_running_home(node, other));
        }
    }

    fn can_take_task(&self, node: usize, other: usize) -> bool {
        let cpus = |node: usize| self.sched.online_cpus[node].len() as u64;
        (self.sched.tasks(node) + 1) * cpus(other) <= self.sched.tasks(other) * cpus(node)
    }

    fn bring_queued_home(&mut self, node: usize, other: usize) -> bool {
        if self.sched.nodes[other].queued_by_home[node] == 0 {
            return false;
        }
        let cpus = self.sched.online_cpus[node].iter().copied();
        let Some(to) = cpus.min_by_key(|&cpu| self.cpus[cpu].task_count()) else { return false };
        let Some(back) = self.sched.online_cpus[other].first().copied() else { return false };
        let exchange = if self.can_take_task(node, other) {
            None
        } else {
            let theirs = self.pull_from_node(node, back, TaskFilter::HomeOn(other));
            match theirs.or_else(|| self.pull_from_node(node, back, TaskFilter::ColdAwayFromHome)) {
                Some(task) => Some(task),
                None => return false,
            }
        };
        let stray = self.pull_from_node(other, to, TaskFilter::HomeOn(node));
        stray.into_iter().for_each(|task| self.attach_task(task, to));
        if let Some(task) = exchange {
            let cpus = self.sched.online_cpus[other].iter().copied();
            let allowed = &self.tasks[task as usize].allowed;
            let fits = cpus.filter(|&cpu| allowed.contains(cpu));
            let shortest = fits.min_by_key(|&cpu| self.cpus[cpu].task_count()).unwrap_or(back);
            self.move_detached_task(task, shortest);
        }
        stray.is_some()
    }

    fn bring_running_home(&mut self, node: usize, other: usize) -> bool {
        if self.sched.nodes[other].running_by_home[node] == 0 {
            return false;
        }
        let Some(from) = self.cpu_running_task_of(other, node) else { return false };
        let task = self.cpus[from].running.expect("a runner runs");
        let idle = self.idle_cpu_on(node, from, &self.tasks[task as usize].allowed);
        let to = idle.or_else(|| self.cpu_running_task_of(node, other));
        let Some(to) = to.filter(|&to| self.tasks[task as usize].allowed.contains(to)) else {
            return false;
        };
        let back = self.cpus[to].running;
        if back.is_some_and(|back| !self.tasks[back as usize].allowed.contains(from)) {
            return false;
        }
        let back = back.and_then(|_| self.preempt(to));
        let there = self.preempt(from);
        there.into_iter().for_each(|task| self.move_detached_task(task, to));
        back.into_iter().for_each(|task| self.move_detached_task(task, from));
        there.is_some()
    }

    /// Returns a CPU of a node whose task has another home node and is not in the kernel.
    fn cpu_running_task_of(&self, node: usize, home: usize) -> Option<usize> {
        let is_stray = |&cpu: &usize| {
            let task = self.cpus[cpu].running.map(|task| &self.tasks[task as usize]);
            task.is_some_and(|task| task.home == Some(home)) && self.cpus[cpu].is_preemptible()
        };
        self.layout.cpus_of_node[node].iter().copied().find(is_stray)
    }
}
