//! Load balancing between run queues: immediately when a CPU becomes idle, and periodically.

use crate::events::Event;
use crate::task::{State, TaskId};
use crate::world::World;

/// Maximum number of tasks moved in one pass over a node.
const MOVES_MAX: usize = 32;

/// The tasks that may be pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Any task.
    Any,
    /// Tasks that did not run just now.
    Cold,
    /// Tasks that did not run just now and are not on their home node.
    ColdStrays,
    /// Tasks whose home is this node.
    HomeOn(usize),
}

impl World {
    /// Pulls a task to an idle CPU: first one whose home is this node, if homes count, then one of
    /// its node, then one of the nearest node with waiting tasks. It also takes tasks that ran just
    /// now: a cold cache costs less than waiting.
    pub(crate) fn pull(&mut self, cpu: usize) -> Option<TaskId> {
        if self.sched.waiting == 0 {
            return None;
        }
        let node = self.layout.node_of(cpu);
        let by_home = self.sched.by_home;
        let home = if by_home { self.pull_home(node, cpu) } else { None };
        home.or_else(|| {
            (0..self.sched.near[node].len()).find_map(|at| {
                self.steps += 1;
                let from = self.sched.near[node][at];
                let stray =
                    if by_home { self.take_from(from, cpu, Choice::ColdStrays) } else { None };
                stray.or_else(|| self.take_from(from, cpu, Choice::Any))
            })
        })
    }

    /// Pulls a task from the longest run queue of a node, or from another queue of the node if that
    /// one has none that fits.
    pub(super) fn take_from(&mut self, node: usize, cpu: usize, choice: Choice) -> Option<TaskId> {
        if self.sched.nodes[node].waiting == 0 {
            return None;
        }
        let cpus = &self.layout.cpus_of_node[node];
        self.steps += cpus.len() as u64;
        let lines = self.sched.nodes[node].lines.iter().map(|at| cpus[at]);
        let longest = lines.max_by_key(|&from| self.cpus[from].line.len())?;
        self.steal(longest, cpu, choice).or_else(|| {
            let places: Vec<_> = self.sched.nodes[node].lines.iter().collect();
            places
                .into_iter()
                .find_map(|at| self.steal(self.layout.cpus_of_node[node][at], cpu, choice))
        })
    }

    /// Pulls a task from another CPU's run queue.
    pub(super) fn steal(&mut self, from: usize, cpu: usize, choice: Choice) -> Option<TaskId> {
        if self.cpus[from].running.is_none() && self.cpus[from].line.len() < 2 {
            return None; // it is about to run there
        }
        let node = self.layout.node_of(from);
        let is_cold =
            |ran_at: u64| ran_at == 0 || ran_at + self.machine.params.cache_hot_ns <= self.now_ns;
        let fits = |&(_, _, task): &(bool, u64, TaskId)| {
            let entry = &self.tasks[task as usize];
            let chosen = match choice {
                Choice::Any => true,
                Choice::Cold => is_cold(entry.ran_at_ns),
                Choice::ColdStrays => is_cold(entry.ran_at_ns) && entry.home != Some(node),
                Choice::HomeOn(home) => entry.home == Some(home),
            };
            chosen && entry.allowed.contains(cpu)
        };
        let place = self.cpus[from].line.places().find(fits)?;
        self.take_from_line(&place, from);
        self.note_move(place.2, cpu);
        Some(place.2)
    }

    /// Puts a pulled task into a run queue, and interrupts the CPU if it is idle.
    pub(super) fn bring(&mut self, task: TaskId, cpu: usize) {
        self.put_in_line(task, cpu);
        if self.cpus[cpu].running.is_none() {
            self.interrupt(cpu, 0);
        }
    }

    /// Balances a node's run queues and compares the node with others, periodically.
    pub(crate) fn balance(&mut self, node: usize) {
        let next = self.now_ns + self.machine.params.balance_ns.max(1);
        self.events.plan(next, Event::Balance { node: node as u32 });
        if self.sched.on[node].is_empty() {
            return;
        }
        if self.sched.waiting > 0 {
            self.even_out(node);
        }
        let compares = self.sched.compares_ns[node] <= self.now_ns;
        if compares {
            self.sched.compares_ns[node] = self.now_ns + self.machine.params.balance_nodes_ns;
        }
        if compares && self.sched.waiting > 0 {
            self.take_over(node);
        }
        self.spread_cores(node);
        if compares && self.sched.by_home {
            self.bring_home(node);
        }
    }

    /// Equalizes the run queues of a node. Where tasks do not divide evenly, lets them take turns
    /// on the longer queues.
    fn even_out(&mut self, node: usize) {
        for _ in 0..MOVES_MAX {
            let cpus = self.sched.on[node].iter().copied();
            self.steps += 2 * cpus.len() as u64;
            let Some(from) = cpus.clone().rev().max_by_key(|&cpu| self.load(cpu)) else { return };
            let Some(to) = cpus.min_by_key(|&cpu| self.load(cpu)) else { return };
            let surplus = self.load(from) - self.load(to);
            if surplus < 2 {
                if surplus == 1 {
                    self.rotate(node, self.load(from));
                }
                return;
            }
            let Some(task) = self.steal(from, to, Choice::Cold) else { return };
            self.bring(task, to);
        }
    }

    /// Moves a task from each CPU with `most` tasks to one with one task less. It picks the task
    /// that has not moved for longest, so that all have their turn.
    fn rotate(&mut self, node: usize, most: usize) {
        let cpus = self.sched.on[node].clone();
        self.steps += cpus.len() as u64;
        let (long, short): (Vec<_>, Vec<_>) =
            cpus.into_iter().partition(|&cpu| self.load(cpu) == most);
        for (from, to) in long.into_iter().zip(short) {
            let moved_at = |task: TaskId| {
                (self.sched.notes.get(task as usize).map_or(0, |note| note.moved_at_ns), task)
            };
            let line = self.cpus[from].line.places();
            let Some(place) = line.min_by_key(|place| moved_at(place.2)) else { continue };
            let running = self.cpus[from].running;
            let first = running.is_none_or(|running| moved_at(place.2) <= moved_at(running));
            if first && self.tasks[place.2 as usize].allowed.contains(to) {
                self.take_from_line(&place, from);
                self.note_move(place.2, to);
                self.bring(place.2, to);
            }
        }
    }

    /// Pulls tasks from the node with most tasks per CPU, and sometimes one more than is right,
    /// because loads are averages that lag behind.
    fn take_over(&mut self, node: usize) {
        self.steps += self.sched.near[node].len() as u64;
        let cpus = |node: usize| self.sched.on[node].len() as u64;
        let others = || self.sched.near[node].iter().copied().filter(move |&other| other != node);
        let more = |&other: &usize| self.sched.tasks(other) * 1_000_000 / cpus(other).max(1);
        let Some(other) = others().rev().max_by_key(more) else { return };
        let choice = if self.sched.spares_home { Choice::ColdStrays } else { Choice::Cold };
        let [mine, theirs] = [node, other].map(|node| self.sched.tasks(node));
        let (here, there) = (cpus(node), cpus(other));
        let surplus = (theirs * here).saturating_sub(mine * there) / (here + there);
        for _ in 0..surplus.min(MOVES_MAX as u64) {
            if !self.take_one(other, node, choice) && !self.take_one(other, node, Choice::Cold) {
                break; // the next look would find none either
            }
        }
        let by_mistake = here * self.machine.params.stray_milli + self.chance.next_value() % 1000;
        let count = self.sched.near[node].len() as u64 - 1;
        let other = self.sched.near[node][1 + (self.chance.next_value() % count) as usize];
        if self.sched.tasks(other) >= self.sched.tasks(node) {
            // A task that the patches of 2012 hold back is not held for long.
            let is_cold = self.sched.numad.is_some() || self.is_at_ease(other);
            let choice = if is_cold { Choice::Cold } else { choice };
            (0..(by_mistake / 1000).min(MOVES_MAX as u64))
                .for_each(|_| self.take_at_random(other, node, choice));
        }
    }

    /// Moves a task from a node to the least loaded CPU of another node.
    fn take_one(&mut self, from: usize, to: usize, choice: Choice) -> bool {
        let cpus = self.sched.on[to].iter().copied();
        let Some(cpu) = cpus.min_by_key(|&cpu| self.load(cpu)) else { return false };
        let task = self.take_from(from, cpu, choice);
        task.into_iter().for_each(|task| self.bring(task, cpu));
        task.is_some()
    }

    /// Does the same with a random run queue.
    fn take_at_random(&mut self, from: usize, to: usize, choice: Choice) {
        let lines: Vec<_> = self.sched.nodes[from].lines.iter().collect();
        if lines.is_empty() {
            return;
        }
        let at = lines[(self.chance.next_value() % lines.len() as u64) as usize];
        let from = self.layout.cpus_of_node[from][at];
        let cpus = self.sched.on[to].iter().copied();
        let Some(cpu) = cpus.min_by_key(|&cpu| self.load(cpu)) else { return };
        if let Some(task) = self.steal(from, cpu, choice) {
            self.bring(task, cpu);
        }
    }

    /// Returns whether the kernel's NUMA balancing protects none of a node's tasks, because each of
    /// them is on its preferred node (`fbq_classify_group`, `migrate_degrades_locality`).
    fn is_at_ease(&self, node: usize) -> bool {
        let cpus = self.layout.cpus_of_node[node].iter().map(|&cpu| &self.cpus[cpu]);
        let waiting = cpus.clone().flat_map(|cpu| cpu.line.places()).map(|place| place.2);
        let mut tasks = waiting.chain(cpus.filter_map(|cpu| cpu.running));
        self.numa.is_some() && tasks.all(|task| self.tasks[task as usize].home == Some(node))
    }

    /// Moves a task that shares its core to an idle core of its node.
    fn spread_cores(&mut self, node: usize) {
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
            if let Some(task) = self.displace(cpu) {
                self.send(task, to);
            }
        }
    }

    /// Puts a displaced task into the run queue of another CPU.
    pub(super) fn send(&mut self, task: TaskId, to: usize) {
        self.note_move(task, to);
        self.bring(task, to);
    }

    /// Takes the CPU from a task that is not in the kernel.
    pub(super) fn displace(&mut self, cpu: usize) -> Option<TaskId> {
        let task = self.stop_turn(cpu)?;
        let entry = &mut self.tasks[task as usize];
        entry.ran_at_ns = self.now_ns;
        entry.state = State::Ready;
        self.interrupt(cpu, 0);
        Some(task)
    }
}
