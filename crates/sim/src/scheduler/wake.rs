//! The choice of a CPU for a task that wakes up, and preemption of the task that runs there.

use crate::cpu::{Op, TaskState};
use crate::hardware::CpuIndexSet;
use crate::ids::TaskId;
use crate::world::World;

/// A waking task preempts a task that is ahead of it by this part (1/3) of a slice.
const PREEMPT_SLICE_PART: u64 = 3;

impl World {
    /// Ends the wait of a task. A task that is not waiting will not wait the next time.
    pub(crate) fn wake(&mut self, task: TaskId) {
        let entry = &mut self.tasks[task as usize];
        match entry.state {
            TaskState::Waiting => {
                if matches!(entry.op, Some(Op::Wait | Op::Sleep(_))) {
                    entry.op = None; // lines that met a page in flight go on
                }
                self.make_runnable(task);
            }
            TaskState::Ready | TaskState::Running => entry.wakeup_pending = true,
            TaskState::Ended => {}
        }
    }

    /// Puts a runnable task into the run queue of the CPU that suits it.
    pub(crate) fn make_runnable(&mut self, task: TaskId) {
        let cpu = self.select_cpu(task);
        self.set_task_cpu(task, cpu);
        self.sched.task_stats_mut(task).woken_at_ns = Some(self.now_ns);
        let was_idle = self.is_idle(cpu);
        self.enqueue(task, cpu);
        if was_idle {
            let wake_ns = self.wake_ns(cpu);
            self.kick_cpu(cpu, wake_ns);
        } else if self.should_preempt(cpu, task) {
            self.charge_interrupt(cpu, self.machine.params.preempt_ns);
            self.resched_cpu(cpu);
        }
    }

    /// Returns the time that an idle CPU takes to wake up: longer if it was idle long enough for
    /// deep sleep.
    fn wake_ns(&mut self, cpu: usize) -> u64 {
        let params = &self.machine.params;
        let idle_ns = self.now_ns.saturating_sub(self.cpus[cpu].idle_since_ns);
        if params.wake_deep_ns == 0 || idle_ns < params.deep_after_ns {
            return params.wake_ns;
        }
        self.counters.deep_wakes += 1;
        params.wake_deep_ns
    }

    /// Returns an idle core near the last CPU, else an idle thread near it, else one on another
    /// node, nearest first, else the last CPU.
    fn select_cpu(&self, task: TaskId) -> usize {
        let entry = &self.tasks[task as usize];
        let last = entry.cpu;
        let node = self.layout.node_of(last);
        let by_home = entry.home.filter(|_| self.sched.prefers_home);
        let home = by_home.and_then(|home| self.idle_cpu_on(home, last, &entry.allowed));
        let idle = || {
            let near = self.sched.nodes_by_distance[node].iter();
            near.copied().find_map(|node| self.idle_cpu_on(node, last, &entry.allowed))
        };
        let at_home = || by_home.and_then(|home| self.short_queue_at(home, last, &entry.allowed));
        let same = || entry.allowed.contains(last).then_some(last);
        let anywhere = || entry.allowed.iter().find(|&cpu| cpu < self.cpus.len());
        home.or_else(idle).or_else(at_home).or_else(same).or_else(anywhere).unwrap_or(last)
    }

    /// Returns an idle CPU of a node, preferably of an idle core; the last CPU if it qualifies.
    pub(crate) fn idle_cpu_on(
        &self,
        node: usize,
        last: usize,
        allowed: &CpuIndexSet,
    ) -> Option<usize> {
        let (load, cpus) = (&self.sched.nodes[node], &self.layout.cpus_of_node[node]);
        let of = |set: &CpuIndexSet| {
            let was_here = self.layout.node_of(last) == node;
            let same =
                was_here && set.contains(self.sched.index_in_node[last]) && allowed.contains(last);
            let fits = |cpu: &usize| allowed.contains(*cpu);
            let other = || set.iter().map(|at| cpus[at]).find(fits);
            if same { Some(last) } else { other() }
        };
        of(&load.idle_cores).or_else(|| of(&load.idle))
    }

    /// Returns the CPU with the shortest run queue of the home node, if the last CPU is not there.
    fn short_queue_at(&self, home: usize, last: usize, allowed: &CpuIndexSet) -> Option<usize> {
        if self.layout.node_of(last) == home {
            return None;
        }
        let cpus = self.sched.online_cpus[home].iter().copied();
        let best = cpus
            .filter(|&cpu| allowed.contains(cpu))
            .min_by_key(|&cpu| self.cpus[cpu].task_count())?;
        (self.cpus[best].task_count() <= self.cpus[last].task_count()).then_some(best)
    }

    fn should_preempt(&self, cpu: usize, task: TaskId) -> bool {
        let Some(running) = self.cpus[cpu].running else { return false };
        let [new, old] = [task, running].map(|task| &self.tasks[task as usize]);
        if new.urgent || old.urgent {
            return new.urgent && !old.urgent;
        }
        let had = old.vruntime_ns + self.cpus[cpu].turn_time_ns(self.now_ns);
        new.vruntime_ns + self.machine.params.slice_ns / PREEMPT_SLICE_PART < had
    }
}
