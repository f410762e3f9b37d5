//! Tasks that leave a CPU or a run queue for another one.

use crate::cpu::TaskState;
use crate::hardware::CpuIndexSet;
use crate::ids::TaskId;
use crate::world::World;

impl World {
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

    /// Removes a task from its run queue, and puts it where it may run.
    pub(crate) fn requeue(&mut self, task: TaskId) {
        let entry = &self.tasks[task as usize];
        let (cpu, place) = (entry.cpu, (!entry.urgent, entry.vruntime_ns, task));
        self.dequeue(&place, cpu);
        self.make_runnable(task);
    }

    /// Moves tasks that wait behind the new running task to idle CPUs, unless they yielded to an
    /// urgent one.
    pub(crate) fn push_queued_tasks(&mut self, cpu: usize) {
        if self.sched.idle == 0 || self.cpus[cpu].run_queue.len() == 0 {
            return;
        }
        let running = self.cpus[cpu].running;
        if running.is_some_and(|task| self.tasks[task as usize].urgent) {
            return;
        }
        for place in self.cpus[cpu].run_queue.entries().collect::<Vec<_>>() {
            let allowed = &self.tasks[place.2 as usize].allowed;
            if running.is_some() && allowed.iter().any(|other| self.is_idle(other)) {
                self.dequeue(&place, cpu);
                self.make_runnable(place.2);
            }
        }
    }

    /// Makes all tasks that wait for a CPU choose another one.
    pub(crate) fn evacuate_queue(&mut self, cpu: usize) {
        for place in self.cpus[cpu].run_queue.entries().collect::<Vec<_>>() {
            self.dequeue(&place, cpu);
            self.make_runnable(place.2);
        }
    }

    /// Sets the CPUs that a task may run on. A set without CPUs of the machine changes nothing.
    pub(crate) fn set_cpus_allowed(&mut self, task: TaskId, allowed: CpuIndexSet) {
        if !allowed.iter().any(|cpu| cpu < self.cpus.len()) {
            return;
        }
        let entry = &mut self.tasks[task as usize];
        entry.allowed = allowed;
        let (cpu, state) = (entry.cpu, entry.state);
        match state {
            TaskState::Ready => self.requeue(task),
            TaskState::Running if entry.allowed.contains(cpu) => {}
            TaskState::Running => self.resched_cpu(cpu),
            TaskState::Waiting | TaskState::Ended => {}
        }
    }
}
