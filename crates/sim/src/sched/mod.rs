//! The scheduler: fair by virtual run time, and blind to memory unless tasks have home nodes.
//!
//! The state that a decision needs of other CPUs is kept by node: the number of waiting tasks, the
//! idle CPUs, the number of tasks away from home. The cost of a decision therefore depends on the
//! CPUs of a node, not on the size of the machine.

mod balance;
mod home;
mod line;
mod nudge;
mod numad;
mod preferred;
#[cfg(test)]
mod tests;
mod wake;

use nodeward_scenario::{Machine, Scenario, Scheduler};

pub use line::Line;

use crate::layout::Layout;
use crate::space::SpaceId;
use crate::task::{CpuSet, State, TaskId};
use crate::world::World;
use line::Place;
use nudge::Nudges;
use numad::Numad;

/// Load of the CPUs of a node. Sets hold positions in [`Layout::cpus_of_node`].
#[derive(Clone, Debug, Default)]
struct NodeLoad {
    /// Waiting tasks.
    waiting: u64,
    /// Running tasks.
    running: u64,
    /// CPUs without a running or waiting task.
    idle: CpuSet,
    /// CPUs of cores of which all threads are idle.
    idle_cores: CpuSet,
    /// CPUs with waiting tasks.
    lines: CpuSet,
    /// Waiting tasks by home node.
    waiting_by_home: Vec<u64>,
    /// Running tasks by home node.
    running_by_home: Vec<u64>,
}

/// Scheduler state of a task.
#[derive(Clone, Copy, Debug, Default)]
struct Note {
    /// Time of its last move to another CPU.
    moved_at_ns: u64,
    /// Time of the wake-up since which it waits for a CPU.
    woken_at_ns: Option<u64>,
    /// Time at which it entered the run queue.
    in_line_at_ns: u64,
    /// Time that it waited in run queues before that.
    waited_ns: u64,
    /// The CPU that is known to be in its space's set, and the space's `pruned` count at that time.
    /// The knowledge is valid as long as that count has not changed.
    known_on: Option<(u32, u32)>,
}

/// State of the scheduler.
#[derive(Debug)]
pub struct Sched {
    nodes: Vec<NodeLoad>,
    /// The position of each CPU in its node.
    place: Vec<usize>,
    /// The nodes with CPUs by distance, for each node.
    near: Vec<Vec<usize>>,
    /// Running tasks by complex.
    in_complex: Vec<u64>,
    waiting: u64,
    /// Number of CPUs without a running or waiting task.
    idle: u64,
    notes: Vec<Note>,
    by_home: bool,
    /// Whether tasks on their home node are left there as long as other tasks can be moved.
    spares_home: bool,
    /// The online CPUs of each node.
    on: Vec<Vec<usize>>,
    /// The home balancer of 2012, if it is in use.
    numad: Option<Numad>,
    /// The time at which each node compares itself with others next.
    compares_ns: Vec<u64>,
    /// Tasks in the kernel that are to move to another CPU when they leave it.
    nudges: Nudges,
}

impl Sched {
    /// Creates the scheduler of a machine without tasks.
    pub fn new(machine: &Machine, layout: &Layout, scenario: &Scenario) -> Self {
        let scheduler = scenario.scheduler;
        let count = machine.nodes.len();
        let mut place = vec![0; layout.cpus.len()];
        for cpus in &layout.cpus_of_node {
            cpus.iter().zip(0..).for_each(|(&cpu, at)| place[cpu] = at);
        }
        let load = |node: usize| {
            let all = CpuSet::of(0..layout.cpus_of_node[node].len());
            NodeLoad {
                idle: all.clone(),
                idle_cores: all,
                waiting_by_home: vec![0; count],
                running_by_home: vec![0; count],
                ..NodeLoad::default()
            }
        };
        let near = |from: usize| {
            let with_cpus = |&node: &usize| !layout.cpus_of_node[node].is_empty();
            let mut nodes: Vec<_> = (0..count).filter(with_cpus).collect();
            nodes.sort_by_key(|&to| (to != from, machine.distances[from][to], to));
            nodes
        };
        Self {
            nodes: (0..count).map(load).collect(),
            place,
            near: (0..count).map(near).collect(),
            in_complex: vec![0; layout.complexes],
            waiting: 0,
            idle: layout.cpus.len() as u64,
            notes: Vec::new(),
            on: layout.cpus_of_node.clone(),
            by_home: scheduler != Scheduler::Blind,
            spares_home: scheduler != Scheduler::Blind || scenario.numa_balancing,
            numad: (scheduler == Scheduler::Numad).then(Numad::default),
            compares_ns: vec![0; count],
            nudges: Nudges::default(),
        }
    }

    /// Returns the number of tasks that run on a complex.
    pub fn in_complex(&self, complex: usize) -> u64 {
        self.in_complex[complex]
    }

    /// Returns the number of tasks that run on all CPUs.
    pub fn running(&self) -> u64 {
        self.nodes.iter().map(|node| node.running).sum()
    }

    /// Returns the number of tasks that run or wait on a node.
    fn tasks(&self, node: usize) -> u64 {
        self.nodes[node].waiting + self.nodes[node].running
    }

    fn note(&mut self, task: TaskId) -> &mut Note {
        let index = task as usize;
        if self.notes.len() <= index {
            self.notes.resize(index + 1, Note::default());
        }
        &mut self.notes[index]
    }
}

impl World {
    /// Puts a task into the run queue of a CPU.
    fn put_in_line(&mut self, task: TaskId, cpu: usize) {
        let entry = &mut self.tasks[task as usize];
        // Sleeping earns at most one slice. Being new earns a program nothing: where short-lived
        // programs follow each other forever, waiting tasks would otherwise starve.
        let is_new = entry.space.is_some() && entry.ran_ns == 0;
        let earned_ns = if is_new { 0 } else { self.machine.params.slice_ns };
        let floor = self.cpus[cpu].line.least_ns().saturating_sub(earned_ns);
        entry.vruntime_ns = entry.vruntime_ns.max(floor);
        entry.state = State::Ready;
        let (place, home) = ((!entry.urgent, entry.vruntime_ns, task), entry.home);
        self.cpus[cpu].line.insert(place);
        self.sched.note(task).in_line_at_ns = self.now_ns;
        let at = self.sched.place[cpu];
        let load = &mut self.sched.nodes[self.layout.node_of(cpu)];
        load.waiting += 1;
        load.lines.insert(at);
        home.into_iter().for_each(|home| load.waiting_by_home[home] += 1);
        self.sched.waiting += 1;
        self.note_idle(cpu);
    }

    /// Removes a task from the run queue of a CPU.
    fn take_from_line(&mut self, place: &Place, cpu: usize) {
        self.cpus[cpu].line.remove(place);
        let note = self.sched.note(place.2);
        note.waited_ns += self.now_ns - note.in_line_at_ns;
        let home = self.tasks[place.2 as usize].home;
        let at = self.sched.place[cpu];
        let load = &mut self.sched.nodes[self.layout.node_of(cpu)];
        load.waiting -= 1;
        if self.cpus[cpu].line.len() == 0 {
            load.lines.remove(at);
        }
        home.into_iter().for_each(|home| load.waiting_by_home[home] -= 1);
        self.sched.waiting -= 1;
        self.note_idle(cpu);
    }

    /// Sets the running task of a CPU, or none.
    pub(crate) fn set_running(&mut self, cpu: usize, task: Option<TaskId>) {
        let old = std::mem::replace(&mut self.cpus[cpu].running, task);
        let load = &mut self.sched.nodes[self.layout.node_of(cpu)];
        let complex = self.layout.cpus[cpu].complex;
        if let Some(task) = old {
            load.running -= 1;
            self.sched.in_complex[complex] -= 1;
            let home = self.tasks[task as usize].home;
            home.into_iter().for_each(|home| load.running_by_home[home] -= 1);
        }
        if let Some(task) = task {
            load.running += 1;
            self.sched.in_complex[complex] += 1;
            let home = self.tasks[task as usize].home;
            home.into_iter().for_each(|home| load.running_by_home[home] += 1);
        }
        if task.is_none() {
            self.cpus[cpu].idle_since_ns = self.now_ns;
        }
        self.note_idle(cpu);
    }

    /// Sets the home node of a task, by index.
    pub(crate) fn set_home(&mut self, task: TaskId, home: Option<usize>) {
        let entry = &mut self.tasks[task as usize];
        let load = &mut self.sched.nodes[self.layout.node_of(entry.cpu)];
        let old = std::mem::replace(&mut entry.home, home);
        let counts = match entry.state {
            State::Ready => &mut load.waiting_by_home,
            State::Running => &mut load.running_by_home,
            State::Waiting | State::Ended => return,
        };
        old.into_iter().for_each(|home| counts[home] -= 1);
        home.into_iter().for_each(|home| counts[home] += 1);
    }

    fn is_idle(&self, cpu: usize) -> bool {
        self.cpus[cpu].running.is_none() && self.cpus[cpu].line.len() == 0 && self.is_on(cpu)
    }

    /// Updates the state of CPUs after one was switched off or on.
    pub(crate) fn note_switched(&mut self, cpu: usize, on: bool) {
        let node = self.layout.node_of(cpu);
        self.sched.on[node].retain(|&other| other != cpu);
        if on {
            self.sched.on[node].push(cpu);
            self.sched.on[node].sort_unstable();
        }
        self.note_idle(cpu);
        self.note_core(cpu);
    }

    /// Makes all tasks that wait for a CPU choose another one.
    pub(crate) fn empty_line(&mut self, cpu: usize) {
        for place in self.cpus[cpu].line.places().collect::<Vec<_>>() {
            self.take_from_line(&place, cpu);
            self.ready(place.2);
        }
    }

    /// Updates the sets of idle CPUs after a change of one.
    fn note_idle(&mut self, cpu: usize) {
        let node = self.layout.node_of(cpu);
        let idle = self.is_idle(cpu);
        if self.sched.nodes[node].idle.contains(self.sched.place[cpu]) == idle {
            return;
        }
        let Sched { nodes, place, idle: all_idle, .. } = &mut self.sched;
        *all_idle = if idle { *all_idle + 1 } else { *all_idle - 1 };
        nodes[node].idle.put(place[cpu], idle);
        self.note_core(cpu);
    }

    /// Updates the set of idle cores after a change of one: cores whose threads are all idle or
    /// offline.
    fn note_core(&mut self, cpu: usize) {
        let node = self.layout.node_of(cpu);
        let siblings = &self.layout.cpus[cpu].siblings;
        let is_free = |&cpu: &usize| self.is_idle(cpu) || !self.is_on(cpu);
        let core = is_free(&cpu) && siblings.iter().all(is_free);
        for &cpu in siblings.iter().chain([&cpu]) {
            let idle = core && self.is_on(cpu);
            self.sched.nodes[node].idle_cores.put(self.sched.place[cpu], idle);
        }
    }

    /// Removes the next task from a CPU's run queue and returns it.
    pub(crate) fn take_next(&mut self, cpu: usize) -> Option<TaskId> {
        let place = self.cpus[cpu].line.places().next()?;
        self.take_from_line(&place, cpu);
        self.tasks[place.2 as usize].state = State::Running;
        Some(place.2)
    }

    /// Puts the task that was running back into a run queue: to an idle CPU if there is one, which
    /// is so where the waiting tasks may not run there. A task that yields to an urgent one stays,
    /// because that does not take long.
    pub(crate) fn put_back(&mut self, cpu: usize, task: TaskId) {
        let nudged = self.sched.nudges.take(task);
        let allowed = &self.tasks[task as usize].allowed;
        if let Some(to) = nudged.filter(|&to| allowed.contains(to)) {
            return self.send(task, to);
        }
        let is_urgent = |task: TaskId| self.tasks[task as usize].urgent;
        let for_long = !self.cpus[cpu].line.first().is_some_and(is_urgent);
        match allowed.contains(cpu) && !(self.sched.idle > 0 && for_long) {
            true => self.put_in_line(task, cpu),
            false => self.ready(task),
        }
    }

    /// Records the end of a wait when a task gets a CPU.
    pub(crate) fn note_enter(&mut self, task: TaskId) {
        if let Some(since) = self.sched.note(task).woken_at_ns.take() {
            self.latencies.woke(self.now_ns - since);
        }
    }

    /// Returns the time that a task waited in run queues, over the waits that have ended, as Linux
    /// counts it.
    pub(crate) fn waited_ns(&self, task: TaskId) -> u64 {
        self.sched.notes.get(task as usize).map_or(0, |note| note.waited_ns)
    }

    /// Records that a space is on a CPU with a task. A task mostly returns to the same CPU.
    pub(crate) fn note_space(&mut self, task: TaskId, space: SpaceId, cpu: usize) {
        let known = Some((cpu as u32, self.spaces[space].pruned));
        if std::mem::replace(&mut self.sched.note(task).known_on, known) != known {
            self.spaces[space].cpus.insert(cpu);
        }
    }

    fn note_move(&mut self, task: TaskId, cpu: usize) {
        let now_ns = self.now_ns;
        let entry = &mut self.tasks[task as usize];
        if entry.cpu == cpu {
            return;
        }
        self.counters.task_moves += 1;
        let nodes = [entry.cpu, cpu].map(|cpu| self.layout.node_of(cpu));
        self.counters.task_node_moves += u64::from(nodes[0] != nodes[1]);
        // Virtual run time is relative to the run queue.
        let least = [entry.cpu, cpu].map(|cpu| self.cpus[cpu].line.least_ns());
        entry.vruntime_ns = (entry.vruntime_ns + least[1]).saturating_sub(least[0]);
        entry.cpu = cpu;
        self.sched.note(task).moved_at_ns = now_ns;
    }
}
