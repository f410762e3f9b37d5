//! What a program in user space can ask for to place threads and memory, beside moving pages.

use nodeward_model::{Nodemask, Pid};

use crate::machine::SimMachine;
use crate::shift::Until;
use crate::space::SpaceId;
use crate::task::{CpuSet, Op, Program, Spent, State, TaskId};
use crate::world::World;

impl World {
    /// Keeps all threads of a process on the CPUs of these nodes (sched_setaffinity). False if
    /// there is no such process, or no such CPU.
    pub fn keep_on(&mut self, pid: Pid, nodes: &Nodemask) -> bool {
        let on = |&cpu: &usize| nodes.contains(self.layout.node_ids[self.layout.node_of(cpu)]);
        let cpus = CpuSet::of((0..self.cpus.len()).filter(on));
        let Some(space) = self.space_of(pid).filter(|_| !cpus.is_empty()) else { return false };
        for task in self.spaces[space].tasks.clone() {
            self.set_allowed(task, cpus.clone());
        }
        true
    }

    /// Keeps each thread of a process on the CPUs of the node that it is on. False if there is no
    /// such process.
    pub fn bind_threads(&mut self, pid: Pid) -> bool {
        let space = self.space_of(pid);
        for task in space.map_or(Vec::new(), |space| self.spaces[space].tasks.clone()) {
            let node = self.layout.node_of(self.tasks[task as usize].cpu);
            let cpus = CpuSet::of(self.layout.cpus_of_node[node].iter().copied());
            self.set_allowed(task, cpus);
        }
        space.is_some()
    }

    /// Lets the pages of a process move to whoever touches them next. False if there is no such
    /// process.
    pub fn migrate_on_fault(&mut self, pid: Pid) -> bool {
        let space = self.space_of(pid);
        space.into_iter().for_each(|space| self.start_lazy([space].into()));
        space.is_some()
    }

    /// Starts a thread that works for so long, on one CPU by index.
    pub(crate) fn start_work(&mut self, cpu: usize, spent: Spent, ns: u64) -> TaskId {
        let program = Works(Some(Op::Busy(spent, ns)));
        self.start_kernel_task(Some(CpuSet::of([cpu])), Box::new(program))
    }

    fn space_of(&self, pid: Pid) -> Option<SpaceId> {
        self.spaces.iter().position(|space| space.pid == pid && !space.ended)
    }

    /// Says where a task may run from now on. A set without CPUs of the machine changes nothing.
    pub(crate) fn set_allowed(&mut self, task: TaskId, allowed: CpuSet) {
        if !allowed.iter().any(|cpu| cpu < self.cpus.len()) {
            return;
        }
        let entry = &mut self.tasks[task as usize];
        entry.allowed = allowed;
        let (cpu, state) = (entry.cpu, entry.state);
        match state {
            State::Ready => self.put_elsewhere(task),
            State::Running if entry.allowed.contains(cpu) => {}
            State::Running => self.reschedule(cpu),
            State::Waiting | State::Ended => {}
        }
    }
}

impl SimMachine {
    /// Lets somebody look at the world between two events, or change it.
    pub fn with_world<T>(&self, act: impl FnOnce(&mut World) -> T) -> T {
        act(&mut self.stage.lock().world)
    }

    /// Lets the calling thread work for so long, on its CPU or on the first, beside what else runs
    /// there. What is not [`Spent::User`] is not interrupted.
    pub fn work_ns(&self, spent: Spent, ns: u64) {
        let mut stage = self.stage.lock();
        let cpu = stage.cpu().unwrap_or(0);
        let task = stage.world.start_work(cpu, spent, ns);
        stage.own_ns = stage.own_ns.saturating_add(ns);
        drop(self.stage.wait(stage, Until::End(task)));
    }
}

/// Does one thing, then ends.
struct Works(Option<Op>);

impl Program for Works {
    fn next(&mut self, _: &mut World, _: TaskId) -> Op {
        self.0.take().unwrap_or(Op::Exit)
    }
}
