//! Requests of a user-space program to place threads and memory, beside moving pages.

use nodeward_model::{NodeId, Nodemask, Pid};

use super::lockstep::WaitUntil;
use super::sim_machine::SimMachine;
use crate::hardware::CpuIndexSet;
use crate::statistics::CpuTimeKind;
use crate::world::World;

impl World {
    /// Keeps all threads of a process on the CPUs of these nodes (sched_setaffinity). Returns
    /// `false` if there is no such process, or no such CPU.
    pub fn bind_to_nodes(&mut self, pid: Pid, nodes: &Nodemask) -> bool {
        let on = |&cpu: &usize| nodes.contains(self.layout.node_ids[self.layout.node_of(cpu)]);
        let cpus = CpuIndexSet::of((0..self.cpus.len()).filter(on));
        let Some(space) = self.space_of(pid).filter(|_| !cpus.is_empty()) else { return false };
        for task in self.spaces[space].tasks.clone() {
            self.set_cpus_allowed(task, cpus.clone());
        }
        true
    }

    /// Keeps each thread of a process on the CPUs of its present node. Returns `false` if there is
    /// no such process.
    pub fn bind_threads(&mut self, pid: Pid) -> bool {
        let space = self.space_of(pid);
        for task in space.map_or(Vec::new(), |space| self.spaces[space].tasks.clone()) {
            let node = self.layout.node_of(self.tasks[task as usize].cpu);
            let cpus = CpuIndexSet::of(self.layout.cpus_of_node[node].iter().copied());
            self.set_cpus_allowed(task, cpus);
        }
        space.is_some()
    }

    /// Keeps the threads of each pool of a process, equal in size, on the CPUs of one of these
    /// nodes. Returns `false` if there is no such process.
    pub fn bind_pools(&mut self, pid: Pid, nodes: &[NodeId]) -> bool {
        let space = self.space_of(pid);
        let tasks = space.map_or(Vec::new(), |space| self.spaces[space].tasks.clone());
        for (at, &task) in tasks.iter().enumerate() {
            let node = nodes.get(at * nodes.len() / tasks.len());
            let Some(node) = node.and_then(|&id| self.machine.index_of(id)) else { continue };
            let cpus = CpuIndexSet::of(self.layout.cpus_of_node[node].iter().copied());
            self.set_cpus_allowed(task, cpus);
        }
        space.is_some()
    }

    /// Marks the pages of a process for migrate-on-fault. Returns `false` if there is no such
    /// process.
    pub fn migrate_on_fault(&mut self, pid: Pid) -> bool {
        let space = self.space_of(pid);
        space.into_iter().for_each(|space| self.start_make_lazy([space].into()));
        space.is_some()
    }
}

impl SimMachine {
    /// Gives access to the world between two events, also to change it.
    pub fn with_world<T>(&self, act: impl FnOnce(&mut World) -> T) -> T {
        act(&mut self.shared.lock().world)
    }

    /// Makes the calling thread work for `ns`, on its CPU or on the first, together with the tasks
    /// that run there. Work other than [`CpuTimeKind::User`] cannot be interrupted.
    pub fn spend_cpu_time(&self, spent: CpuTimeKind, ns: u64) {
        let mut lockstep = self.shared.lock();
        let cpu = lockstep.current_cpu().unwrap_or(0);
        let task = lockstep.world.start_work(cpu, spent, ns);
        lockstep.own_cpu_time_ns = lockstep.own_cpu_time_ns.saturating_add(ns);
        drop(self.shared.wait(lockstep, WaitUntil::TaskEnd(task)));
    }
}
