//! Run queues, and the load of the CPUs by node.

use crate::cpu::{QueueEntry, SchedulerState, TaskState};
use crate::ids::{SpaceId, TaskId};
use crate::world::World;

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

    /// Updates the sets of idle CPUs after a change of one.
    fn update_idle_cpu(&mut self, cpu: usize) {
        let node = self.layout.node_of(cpu);
        let idle = self.is_idle(cpu);
        if self.sched.nodes[node].idle.contains(self.sched.index_in_node[cpu]) == idle {
            return;
        }
        let SchedulerState { nodes, index_in_node: place, idle: all_idle, .. } = &mut self.sched;
        *all_idle = if idle { *all_idle + 1 } else { *all_idle - 1 };
        nodes[node].idle.set(place[cpu], idle);
        self.update_idle_core(cpu);
    }

    /// Updates the set of idle cores after a change of one: cores whose threads are all idle or
    /// offline.
    fn update_idle_core(&mut self, cpu: usize) {
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
