//! Tasks that move from CPU to CPU.

use crate::cpu::TaskState;
use crate::ids::TaskId;
use crate::world::World;

/// The tasks that may be pulled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskFilter {
    /// Any task.
    Any,
    /// Tasks that did not run just now.
    Cold,
    /// Tasks that did not run just now and are not on their home node.
    ColdAwayFromHome,
    /// Tasks whose home is this node.
    HomeOn(usize),
}

impl World {
    /// Pulls a task from the longest run queue of a node, or from another queue of the node if that
    /// one has none that fits.
    pub(crate) fn pull_from_node(
        &mut self,
        node: usize,
        cpu: usize,
        choice: TaskFilter,
    ) -> Option<TaskId> {
        if self.sched.nodes[node].queued == 0 {
            return None;
        }
        let cpus = &self.layout.cpus_of_node[node];
        self.steps += cpus.len() as u64;
        let queues = self.sched.nodes[node].queued_cpus.iter().map(|at| cpus[at]);
        let longest = queues.max_by_key(|&from| self.cpus[from].run_queue.len())?;
        self.detach_task(longest, cpu, choice).or_else(|| {
            let places: Vec<_> = self.sched.nodes[node].queued_cpus.iter().collect();
            places
                .into_iter()
                .find_map(|at| self.detach_task(self.layout.cpus_of_node[node][at], cpu, choice))
        })
    }

    /// Pulls a task from another CPU's run queue.
    pub(crate) fn detach_task(
        &mut self,
        from: usize,
        cpu: usize,
        choice: TaskFilter,
    ) -> Option<TaskId> {
        if self.cpus[from].running.is_none() && self.cpus[from].run_queue.len() < 2 {
            return None; // it is about to run there
        }
        let node = self.layout.node_of(from);
        let is_cold =
            |ran_at: u64| ran_at == 0 || ran_at + self.machine.params.cache_hot_ns <= self.now_ns;
        let fits = |&(_, _, task): &(bool, u64, TaskId)| {
            let entry = &self.tasks[task as usize];
            let chosen = match choice {
                TaskFilter::Any => true,
                TaskFilter::Cold => is_cold(entry.last_ran_ns),
                TaskFilter::ColdAwayFromHome => {
                    is_cold(entry.last_ran_ns) && entry.home != Some(node)
                }
                TaskFilter::HomeOn(home) => entry.home == Some(home),
            };
            chosen && entry.allowed.contains(cpu)
        };
        let place = self.cpus[from].run_queue.entries().find(fits)?;
        self.dequeue(&place, from);
        self.set_task_cpu(place.2, cpu);
        Some(place.2)
    }

    /// Puts a pulled task into a run queue, and interrupts the CPU if it is idle.
    pub(crate) fn attach_task(&mut self, task: TaskId, cpu: usize) {
        self.enqueue(task, cpu);
        if self.cpus[cpu].running.is_none() {
            self.kick_cpu(cpu, 0);
        }
    }

    /// Puts a displaced task into the run queue of another CPU.
    pub(crate) fn move_detached_task(&mut self, task: TaskId, to: usize) {
        self.set_task_cpu(task, to);
        self.attach_task(task, to);
    }

    /// Takes the CPU from a task that is not in the kernel.
    pub(crate) fn preempt(&mut self, cpu: usize) -> Option<TaskId> {
        let task = self.preempt_user_turn(cpu)?;
        let entry = &mut self.tasks[task as usize];
        entry.last_ran_ns = self.now_ns;
        entry.state = TaskState::Ready;
        self.kick_cpu(cpu, 0);
        Some(task)
    }

    /// Ends the turn of a task in user mode, and takes the CPU from it.
    fn preempt_user_turn(&mut self, cpu: usize) -> Option<TaskId> {
        let task = self.cpus[cpu].running?;
        if self.cpus[cpu].turn_work.is_none() || !self.cpus[cpu].is_preemptible() {
            return None;
        }
        self.end_turn(cpu);
        self.set_running(cpu, None);
        Some(task)
    }
}
