//! Load balancing between run queues: immediately when a CPU becomes idle, and periodically.

use super::task_moves::TaskFilter;
use crate::events::SimEvent;
use crate::ids::TaskId;
use crate::world::World;

/// Maximum number of tasks moved in one pass over a node.
const TASKS_PER_BALANCE_MAX: usize = 32;

impl World {
    /// Pulls a task to an idle CPU: first one whose home is this node, if homes count, then one of
    /// its node, then one of the nearest node with waiting tasks. It also takes tasks that ran just
    /// now: a cold cache costs less than waiting.
    pub(crate) fn pull_task(&mut self, cpu: usize) -> Option<TaskId> {
        if self.sched.queued == 0 {
            return None;
        }
        let node = self.layout.node_of(cpu);
        let by_home = self.sched.prefers_home;
        let home = if by_home { self.pull_home(node, cpu) } else { None };
        home.or_else(|| {
            (0..self.sched.nodes_by_distance[node].len()).find_map(|at| {
                self.steps += 1;
                let from = self.sched.nodes_by_distance[node][at];
                let stray = if by_home {
                    self.pull_from_node(from, cpu, TaskFilter::ColdAwayFromHome)
                } else {
                    None
                };
                stray.or_else(|| self.pull_from_node(from, cpu, TaskFilter::Any))
            })
        })
    }

    /// Balances a node's run queues and compares the node with others, periodically.
    pub(crate) fn load_balance(&mut self, node: usize) {
        let next = self.now_ns + self.machine.params.balance_ns.max(1);
        self.events.plan(next, SimEvent::Balance { node: node as u32 });
        if self.sched.online_cpus[node].is_empty() {
            return;
        }
        if self.sched.queued > 0 {
            self.balance_within_node(node);
        }
        let compares = self.sched.next_node_balance_ns[node] <= self.now_ns;
        if compares {
            self.sched.next_node_balance_ns[node] =
                self.now_ns + self.machine.params.balance_nodes_ns;
        }
        if compares && self.sched.queued > 0 {
            self.balance_between_nodes(node);
        }
        self.balance_cores(node);
        if compares && self.sched.prefers_home {
            self.bring_home(node);
        }
    }

    /// Equalizes the run queues of a node. Where tasks do not divide evenly, lets them take turns
    /// on the longer queues.
    fn balance_within_node(&mut self, node: usize) {
        for _ in 0..TASKS_PER_BALANCE_MAX {
            let cpus = self.sched.online_cpus[node].iter().copied();
            self.steps += 2 * cpus.len() as u64;
            let Some(from) = cpus.clone().rev().max_by_key(|&cpu| self.cpus[cpu].task_count())
            else {
                return;
            };
            let Some(to) = cpus.min_by_key(|&cpu| self.cpus[cpu].task_count()) else { return };
            let surplus = self.cpus[from].task_count() - self.cpus[to].task_count();
            if surplus < 2 {
                if surplus == 1 {
                    self.rotate_surplus(node, self.cpus[from].task_count());
                }
                return;
            }
            let Some(task) = self.detach_task(from, to, TaskFilter::Cold) else { return };
            self.attach_task(task, to);
        }
    }

    /// Moves a task from each CPU with `most` tasks to one with one task less. It picks the task
    /// that has not moved for longest, so that all have their turn.
    fn rotate_surplus(&mut self, node: usize, most: usize) {
        let cpus = self.sched.online_cpus[node].clone();
        self.steps += cpus.len() as u64;
        let (long, short): (Vec<_>, Vec<_>) =
            cpus.into_iter().partition(|&cpu| self.cpus[cpu].task_count() == most);
        for (from, to) in long.into_iter().zip(short) {
            let moved_at = |task: TaskId| {
                (self.sched.task_stats.get(task as usize).map_or(0, |note| note.moved_at_ns), task)
            };
            let waiting = self.cpus[from].run_queue.entries();
            let Some(place) = waiting.min_by_key(|place| moved_at(place.2)) else { continue };
            let running = self.cpus[from].running;
            let first = running.is_none_or(|running| moved_at(place.2) <= moved_at(running));
            if first && self.tasks[place.2 as usize].allowed.contains(to) {
                self.dequeue(&place, from);
                self.set_task_cpu(place.2, to);
                self.attach_task(place.2, to);
            }
        }
    }

    /// Pulls tasks from the node with most tasks per CPU, and sometimes one more than is right,
    /// because loads are averages that lag behind.
    fn balance_between_nodes(&mut self, node: usize) {
        self.steps += self.sched.nodes_by_distance[node].len() as u64;
        let cpus = |node: usize| self.sched.online_cpus[node].len() as u64;
        let others = || {
            self.sched.nodes_by_distance[node].iter().copied().filter(move |&other| other != node)
        };
        let more = |&other: &usize| self.sched.tasks(other) * 1_000_000 / cpus(other).max(1);
        let Some(other) = others().rev().max_by_key(more) else { return };
        let choice =
            if self.sched.spares_home { TaskFilter::ColdAwayFromHome } else { TaskFilter::Cold };
        let [mine, theirs] = [node, other].map(|node| self.sched.tasks(node));
        let (here, there) = (cpus(node), cpus(other));
        let surplus = (theirs * here).saturating_sub(mine * there) / (here + there);
        for _ in 0..surplus.min(TASKS_PER_BALANCE_MAX as u64) {
            if !self.pull_one(other, node, choice) && !self.pull_one(other, node, TaskFilter::Cold)
            {
                break; // the next look would find none either
            }
        }
        let by_mistake = here * self.machine.params.stray_milli + self.rng.next_u64() % 1000;
        let count = self.sched.nodes_by_distance[node].len() as u64 - 1;
        let other = self.sched.nodes_by_distance[node][1 + (self.rng.next_u64() % count) as usize];
        if self.sched.tasks(other) >= self.sched.tasks(node) {
            // A task that the patches of 2012 hold back is not held for long.
            let is_cold = self.sched.sched_numa.is_some() || self.all_at_preferred_node(other);
            let choice = if is_cold { TaskFilter::Cold } else { choice };
            (0..(by_mistake / 1000).min(TASKS_PER_BALANCE_MAX as u64))
                .for_each(|_| self.pull_at_random(other, node, choice));
        }
    }

    /// Moves a task from a node to the least loaded CPU of another node.
    fn pull_one(&mut self, from: usize, to: usize, choice: TaskFilter) -> bool {
        let cpus = self.sched.online_cpus[to].iter().copied();
        let Some(cpu) = cpus.min_by_key(|&cpu| self.cpus[cpu].task_count()) else { return false };
        let task = self.pull_from_node(from, cpu, choice);
        task.into_iter().for_each(|task| self.attach_task(task, cpu));
        task.is_some()
    }

    /// Does the same with a random run queue.
    fn pull_at_random(&mut self, from: usize, to: usize, choice: TaskFilter) {
        let queues: Vec<_> = self.sched.nodes[from].queued_cpus.iter().collect();
        if queues.is_empty() {
            return;
        }
        let at = queues[(self.rng.next_u64() % queues.len() as u64) as usize];
        let from = self.layout.cpus_of_node[from][at];
        let cpus = self.sched.online_cpus[to].iter().copied();
        let Some(cpu) = cpus.min_by_key(|&cpu| self.cpus[cpu].task_count()) else { return };
        if let Some(task) = self.detach_task(from, cpu, choice) {
            self.attach_task(task, cpu);
        }
    }

    /// Returns whether the kernel's NUMA balancing protects none of a node's tasks, because each of
    /// them is on its preferred node (`fbq_classify_group`, `migrate_degrades_locality`).
    fn all_at_preferred_node(&self, node: usize) -> bool {
        let cpus = self.layout.cpus_of_node[node].iter().map(|&cpu| &self.cpus[cpu]);
        let waiting = cpus.clone().flat_map(|cpu| cpu.run_queue.entries()).map(|place| place.2);
        let mut tasks = waiting.chain(cpus.filter_map(|cpu| cpu.running));
        self.numa_balancing.is_some()
            && tasks.all(|task| self.tasks[task as usize].home == Some(node))
    }

    /// Moves a task that shares its core to an idle core of its node.
    fn balance_cores(&mut self, node: usize) {
        for at in 0..self.layout.cpus_of_node[node].len() {
            self.steps += 1;
            let cpu = self.layout.cpus_of_node[node][at];
            let siblings = &self.layout.cpus[cpu].siblings;
            let shares = siblings.iter().any(|&other| self.cpus[other].running.is_some());
            if self.sched.nodes[node].idle_cores.is_empty() {
                return;
            }
            let Some(task) = self.cpus[cpu].running.filter(|_| shares) else { continue };
            let idle = &self.sched.nodes[node].idle_cores;
            let free = idle.iter().map(|at| self.layout.cpus_of_node[node][at]);
            let to = free.into_iter().find(|&to| self.tasks[task as usize].allowed.contains(to));
            let Some(to) = to else { continue };
            if let Some(task) = self.preempt(cpu) {
                self.move_detached_task(task, to);
            }
        }
    }
}
