//! Run queues, and the load of the CPUs by node.

use nodeward_scenario::{MachineSpec, Scenario, SchedulerKind};

use super::nudge::Nudges;
use crate::cpu::{CpuIndexSet, QueueEntry, TaskId, TaskState};
use crate::hardware::MachineLayout;
use crate::memory::SpaceId;
use crate::numa_balancing::SchedNuma;
use crate::world::World;

/// Load of the CPUs of a node. Sets hold positions in [`MachineLayout::cpus_of_node`].
#[derive(Clone, Debug, Default)]
pub struct NodeQueues {
    /// Waiting tasks.
    pub queued: u64,
    /// Running tasks.
    pub running: u64,
    /// CPUs without a running or waiting task.
    pub idle: CpuIndexSet,
    /// CPUs of cores of which all threads are idle.
    pub idle_cores: CpuIndexSet,
    /// CPUs with waiting tasks.
    pub queued_cpus: CpuIndexSet,
    /// Waiting tasks by home node.
    pub queued_by_home: Vec<u64>,
    /// Running tasks by home node.
    pub running_by_home: Vec<u64>,
}

/// Scheduler state of a task.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskStats {
    /// Time of its last move to another CPU.
    pub moved_at_ns: u64,
    /// Time of the wake-up since which it waits for a CPU.
    pub woken_at_ns: Option<u64>,
    /// Time at which it entered the run queue.
    pub queued_at_ns: u64,
    /// Time that it waited in run queues before that.
    pub queued_ns: u64,
    /// The CPU that is known to be in its space's set, and the space's `pruned` count at that time.
    /// The knowledge is valid as long as that count has not changed.
    pub known_cpu: Option<(u32, u32)>,
}

/// State of the scheduler.
#[derive(Debug)]
pub struct Sched {
    pub nodes: Vec<NodeQueues>,
    /// The position of each CPU in its node.
    pub index_in_node: Vec<usize>,
    /// The nodes with CPUs by distance, for each node.
    pub nodes_by_distance: Vec<Vec<usize>>,
    /// Running tasks by complex.
    pub running_in_complex: Vec<u64>,
    pub queued: u64,
    /// Number of CPUs without a running or waiting task.
    pub idle: u64,
    pub task_stats: Vec<TaskStats>,
    pub prefers_home: bool,
    /// Whether tasks on their home node are left there as long as other tasks can be moved.
    pub spares_home: bool,
    /// The online CPUs of each node.
    pub online_cpus: Vec<Vec<usize>>,
    /// The home balancer of 2012, if it is in use.
    pub sched_numa: Option<SchedNuma>,
    /// The time at which each node compares itself with others next.
    pub next_node_balance_ns: Vec<u64>,
    /// Tasks in the kernel that are to move to another CPU when they leave it.
    pub nudges: Nudges,
}

impl Sched {
    /// Creates the scheduler of a machine without tasks.
    pub fn new(machine: &MachineSpec, layout: &MachineLayout, scenario: &Scenario) -> Self {
        let scheduler = scenario.scheduler;
        let count = machine.nodes.len();
        let mut place = vec![0; layout.cpus.len()];
        for cpus in &layout.cpus_of_node {
            cpus.iter().zip(0..).for_each(|(&cpu, at)| place[cpu] = at);
        }
        let load = |node: usize| {
            let all = CpuIndexSet::of(0..layout.cpus_of_node[node].len());
            NodeQueues {
                idle: all.clone(),
                idle_cores: all,
                queued_by_home: vec![0; count],
                running_by_home: vec![0; count],
                ..NodeQueues::default()
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
            index_in_node: place,
            nodes_by_distance: (0..count).map(near).collect(),
            running_in_complex: vec![0; layout.complex_count],
            queued: 0,
            idle: layout.cpus.len() as u64,
            task_stats: Vec::new(),
            online_cpus: layout.cpus_of_node.clone(),
            prefers_home: scheduler != SchedulerKind::NumaUnaware,
            spares_home: scheduler != SchedulerKind::NumaUnaware || scenario.numa_balancing,
            sched_numa: (scheduler == SchedulerKind::SchedNuma2012).then(SchedNuma::default),
            next_node_balance_ns: vec![0; count],
            nudges: Nudges::default(),
        }
    }

    /// Returns the number of tasks that run on a complex.
    pub fn running_in_complex(&self, complex: usize) -> u64 {
        self.running_in_complex[complex]
    }

    /// Returns the number of tasks that run on all CPUs.
    pub fn running(&self) -> u64 {
        self.nodes.iter().map(|node| node.running).sum()
    }

    /// Returns the number of tasks that run or wait on a node.
    pub fn tasks(&self, node: usize) -> u64 {
        self.nodes[node].queued + self.nodes[node].running
    }

    pub fn task_stats_mut(&mut self, task: TaskId) -> &mut TaskStats {
        let index = task as usize;
        if self.task_stats.len() <= index {
            self.task_stats.resize(index + 1, TaskStats::default());
        }
        &mut self.task_stats[index]
    }
}

impl World {
    /// Puts a task into the run queue of a CPU.
    pub(crate) fn enqueue(&mut self, task: TaskId, cpu: usize) {
        let entry = &mut self.tasks[task as usize];
        // Sleeping earns at most one slice. Being new earns a program nothing: where short-lived
        // programs follow each other forever, waiting tasks would otherwise starve.
        let is_new = entry.space.is_some() && entry.cpu_time_ns == 0;
        let earned_ns = if is_new { 0 } else { self.machine.params.slice_ns };
        let floor = self.cpus[cpu].run_queue.min_vruntime_ns().saturating_sub(earned_ns);
        entry.vruntime_ns = entry.vruntime_ns.max(floor);
        entry.state = TaskState::Ready;
        let (place, home) = ((!entry.urgent, entry.vruntime_ns, task), entry.home);
        self.cpus[cpu].run_queue.insert(place);
        self.sched.task_stats_mut(task).queued_at_ns = self.now_ns;
        let at = self.sched.index_in_node[cpu];
        let load = &mut self.sched.nodes[self.layout.node_of(cpu)];
        load.queued += 1;
        load.queued_cpus.insert(at);
        home.into_iter().for_each(|home| load.queued_by_home[home] += 1);
        self.sched.queued += 1;
        self.update_idle_cpu(cpu);
    }

    /// Removes a task from the run queue of a CPU.
    pub(crate) fn dequeue(&mut self, place: &QueueEntry, cpu: usize) {
        self.cpus[cpu].run_queue.remove(place);
        let note = self.sched.task_stats_mut(place.2);
        note.queued_ns += self.now_ns - note.queued_at_ns;
        let home = self.tasks[place.2 as usize].home;
        let at = self.sched.index_in_node[cpu];
        let load = &mut self.sched.nodes[self.layout.node_of(cpu)];
        load.queued -= 1;
        if self.cpus[cpu].run_queue.len() == 0 {
            load.queued_cpus.remove(at);
        }
        home.into_iter().for_each(|home| load.queued_by_home[home] -= 1);
        self.sched.queued -= 1;
        self.update_idle_cpu(cpu);
    }

    /// Sets the running task of a CPU, or none.
    pub(crate) fn set_running(&mut self, cpu: usize, task: Option<TaskId>) {
        let old = std::mem::replace(&mut self.cpus[cpu].running, task);
        let load = &mut self.sched.nodes[self.layout.node_of(cpu)];
        let complex = self.layout.cpus[cpu].complex;
        if let Some(task) = old {
            load.running -= 1;
            self.sched.running_in_complex[complex] -= 1;
            let home = self.tasks[task as usize].home;
            home.into_iter().for_each(|home| load.running_by_home[home] -= 1);
        }
        if let Some(task) = task {
            load.running += 1;
            self.sched.running_in_complex[complex] += 1;
            let home = self.tasks[task as usize].home;
            home.into_iter().for_each(|home| load.running_by_home[home] += 1);
        }
        if task.is_none() {
            self.cpus[cpu].idle_since_ns = self.now_ns;
        }
        self.update_idle_cpu(cpu);
    }

    /// Sets the home node of a task, by index.
    pub(crate) fn set_home(&mut self, task: TaskId, home: Option<usize>) {
        let entry = &mut self.tasks[task as usize];
        let load = &mut self.sched.nodes[self.layout.node_of(entry.cpu)];
        let old = std::mem::replace(&mut entry.home, home);
        let counts = match entry.state {
            TaskState::Ready => &mut load.queued_by_home,
            TaskState::Running => &mut load.running_by_home,
            TaskState::Waiting | TaskState::Ended => return,
        };
        old.into_iter().for_each(|home| counts[home] -= 1);
        home.into_iter().for_each(|home| counts[home] += 1);
    }

    pub(crate) fn is_idle(&self, cpu: usize) -> bool {
        self.cpus[cpu].running.is_none()
            && self.cpus[cpu].run_queue.len() == 0
            && self.is_cpu_online(cpu)
    }

    /// Updates the state of CPUs after one was switched off or on.
    pub(crate) fn set_sched_online(&mut self, cpu: usize, on: bool) {
        let node = self.layout.node_of(cpu);
        self.sched.online_cpus[node].retain(|&other| other != cpu);
        if on {
            self.sched.online_cpus[node].push(cpu);
            self.sched.online_cpus[node].sort_unstable();
        }
        self.update_idle_cpu(cpu);
        self.update_idle_core(cpu);
    }

    /// Makes all tasks that wait for a CPU choose another one.
    pub(crate) fn evacuate_queue(&mut self, cpu: usize) {
        for place in self.cpus[cpu].run_queue.entries().collect::<Vec<_>>() {
            self.dequeue(&place, cpu);
            self.make_runnable(place.2);
        }
    }

    /// Updates the sets of idle CPUs after a change of one.
    pub(crate) fn update_idle_cpu(&mut self, cpu: usize) {
        let node = self.layout.node_of(cpu);
        let idle = self.is_idle(cpu);
        if self.sched.nodes[node].idle.contains(self.sched.index_in_node[cpu]) == idle {
            return;
        }
        let Sched { nodes, index_in_node: place, idle: all_idle, .. } = &mut self.sched;
        *all_idle = if idle { *all_idle + 1 } else { *all_idle - 1 };
        nodes[node].idle.set(place[cpu], idle);
        self.update_idle_core(cpu);
    }

    /// Updates the set of idle cores after a change of one: cores whose threads are all idle or
    /// offline.
    pub(crate) fn update_idle_core(&mut self, cpu: usize) {
        let node = self.layout.node_of(cpu);
        let siblings = &self.layout.cpus[cpu].siblings;
        let is_free = |&cpu: &usize| self.is_idle(cpu) || !self.is_cpu_online(cpu);
        let core = is_free(&cpu) && siblings.iter().all(is_free);
        for &cpu in siblings.iter().chain([&cpu]) {
            let idle = core && self.is_cpu_online(cpu);
            self.sched.nodes[node].idle_cores.set(self.sched.index_in_node[cpu], idle);
        }
    }

    /// Removes the next task from a CPU's run queue and returns it.
    pub(crate) fn pick_next_task(&mut self, cpu: usize) -> Option<TaskId> {
        let place = self.cpus[cpu].run_queue.entries().next()?;
        self.dequeue(&place, cpu);
        self.tasks[place.2 as usize].state = TaskState::Running;
        Some(place.2)
    }

    /// Puts the task that was running back into a run queue: to an idle CPU if there is one, which
    /// is so where the waiting tasks may not run there. A task that yields to an urgent one stays,
    /// because that does not take long.
    pub(crate) fn put_prev_task(&mut self, cpu: usize, task: TaskId) {
        let nudged = self.sched.nudges.take_destination(task);
        let allowed = &self.tasks[task as usize].allowed;
        if let Some(to) = nudged.filter(|&to| allowed.contains(to)) {
            return self.move_detached_task(task, to);
        }
        let is_urgent = |task: TaskId| self.tasks[task as usize].urgent;
        let for_long = !self.cpus[cpu].run_queue.first().is_some_and(is_urgent);
        match allowed.contains(cpu) && !(self.sched.idle > 0 && for_long) {
            true => self.enqueue(task, cpu),
            false => self.make_runnable(task),
        }
    }

    /// Records the end of a wait when a task gets a CPU.
    pub(crate) fn record_wake_latency(&mut self, task: TaskId) {
        if let Some(since) = self.sched.task_stats_mut(task).woken_at_ns.take() {
            self.latencies.record_wake(self.now_ns - since);
        }
    }

    /// Returns the time that a task waited in run queues, over the waits that have ended, as Linux
    /// counts it.
    pub(crate) fn queued_time_ns(&self, task: TaskId) -> u64 {
        self.sched.task_stats.get(task as usize).map_or(0, |note| note.queued_ns)
    }

    /// Records that a space is on a CPU with a task. A task mostly returns to the same CPU.
    pub(crate) fn record_tlb_cpu(&mut self, task: TaskId, space: SpaceId, cpu: usize) {
        let known = Some((cpu as u32, self.spaces[space].tlb_cpus_version));
        if std::mem::replace(&mut self.sched.task_stats_mut(task).known_cpu, known) != known {
            self.spaces[space].tlb_cpus.insert(cpu);
        }
    }

    pub(crate) fn set_task_cpu(&mut self, task: TaskId, cpu: usize) {
        let now_ns = self.now_ns;
        let entry = &mut self.tasks[task as usize];
        if entry.cpu == cpu {
            return;
        }
        self.counters.task_moves += 1;
        let nodes = [entry.cpu, cpu].map(|cpu| self.layout.node_of(cpu));
        self.counters.task_node_moves += u64::from(nodes[0] != nodes[1]);
        // Virtual run time is relative to the run queue.
        let least = [entry.cpu, cpu].map(|cpu| self.cpus[cpu].run_queue.min_vruntime_ns());
        entry.vruntime_ns = (entry.vruntime_ns + least[1]).saturating_sub(least[0]);
        entry.cpu = cpu;
        self.sched.task_stats_mut(task).moved_at_ns = now_ns;
    }
}
