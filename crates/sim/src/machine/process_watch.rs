//! Periodic sampling of the processes of a simulated machine, as a balancer does it.
//!
//! All processes run as root, in the root cgroup. Sampling takes CPU time: a fixed amount for each
//! process, and for each thread of the processes that ran since the last sample.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use nodeward_machine::{Error, ProcessWatch, Result};
use nodeward_model::{
    Cpumask, MachineSnapshot, Name, NodeHeadroom, NodeSnapshot, Nodemask, ProcessFilter,
    ProcessSnapshot, ThreadSnapshot,
};

use super::lockstep::{SharedWorld, WaitUntil};
use crate::cpu::Task;
use crate::hardware::CpuIndexSet;
use crate::ids::{SpaceId, TaskId};
use crate::memory::AddressSpace;
use crate::statistics::CpuTimeKind;
use crate::world::World;

/// Samples a set of processes.
pub struct SimWatch {
    shared: Arc<SharedWorld>,
    filter: ProcessFilter,
    /// CPU time of each process at the last sample.
    cpu_time_ns: BTreeMap<SpaceId, u64>,
}

impl SimWatch {
    /// Creates a watch on the wanted processes.
    ///
    /// # Errors
    /// If a named cgroup does not exist.
    pub fn new(lockstep: Arc<SharedWorld>, wanted: &ProcessFilter) -> Result<Self> {
        match wanted.cgroups.iter().find(|group| !is_root(group)) {
            None => {
                Ok(Self { shared: lockstep, filter: wanted.clone(), cpu_time_ns: BTreeMap::new() })
            }
            Some(_) => Err(Error::Unsupported {
                action: "watching a control group",
                reason: "on a simulated machine all processes are in the one at the root"
                    .to_owned(),
            }),
        }
    }

    fn matches(&self, space: &AddressSpace) -> bool {
        let ProcessFilter { pids, names, users, cgroups } = &self.filter;
        let name = kernel_comm(space);
        self.filter.matches_all()
            || pids.contains(&space.pid)
            || names.contains(&name)
            || users.contains(&0)
            || !cgroups.is_empty()
    }
}

fn is_root(group: &Path) -> bool {
    group.iter().all(|part| part == "/")
}

/// Returns the name as the kernel keeps it: 15 characters.
pub fn kernel_comm(space: &AddressSpace) -> Name {
    comm(&space.name)
}

fn comm(name: &str) -> Name {
    name.chars().take(15).collect::<String>().into()
}

impl ProcessWatch for SimWatch {
    fn snapshot(&mut self) -> Result<MachineSnapshot> {
        let mut lockstep = self.shared.lock();
        let world = &lockstep.world;
        let is_there = |&space: &SpaceId| {
            let entry = &world.spaces[space];
            !entry.ended && !entry.tasks.is_empty() && self.matches(entry)
        };
        let spaces: Vec<_> = (0..world.spaces.len()).filter(is_there).collect();
        let mut masks = LastCpumask::default();
        let mut processes: Vec<_> =
            spaces.iter().map(|&space| world.process_snapshot(space, &mut masks)).collect();
        let ran = spaces.iter().copied().zip(processes.iter().map(|process| process.cpu_time_ns));
        let ran_ns: BTreeMap<_, _> = ran.collect();
        let is_new = |&(space, _): &(&SpaceId, _)| self.cpu_time_ns.get(space) != ran_ns.get(space);
        let new = spaces.iter().zip(&processes).filter(is_new);
        let threads: u64 = new.map(|(_, process)| process.threads.len() as u64).sum();
        processes.sort_by_key(|process| process.pid);
        let snapshot = MachineSnapshot {
            at_ns: world.now_ns,
            processes,
            denied: Vec::new(),
            nodes: world.node_snapshots(),
            // No process waits for memory here: one that finds none is killed.
            pressure_stall_ns: None,
            migrated_pages: Some(world.counters.migrated_pages),
            balancing_pages: Some(world.counters.lazy_pages),
        };
        self.cpu_time_ns = ran_ns;
        let params = &world.machine.params;
        let ns = params.look_process_ns.saturating_mul(spaces.len() as u64);
        let ns = ns.saturating_add(params.look_thread_ns.saturating_mul(threads));
        if ns > 0 {
            let cpu = lockstep.current_or_idlest_cpu();
            let task = lockstep.world.start_work(cpu, CpuTimeKind::Kernel, ns);
            lockstep.own_cpu_time_ns += ns;
            drop(self.shared.wait(lockstep, WaitUntil::TaskEnd(task)));
        }
        Ok(snapshot)
    }
}

/// Cache of the last CPU mask: threads mostly have the same one as the thread before.
#[derive(Default)]
struct LastCpumask {
    last: Option<(CpuIndexSet, Arc<Cpumask>)>,
}

impl LastCpumask {
    fn cpumask(&mut self, world: &World, cpus: &CpuIndexSet) -> Arc<Cpumask> {
        if let Some((last, mask)) = &self.last
            && last == cpus
        {
            return Arc::clone(mask);
        }
        let ids = cpus.iter().filter_map(|cpu| world.layout.cpus.get(cpu));
        let mask = Arc::new(ids.map(|place| place.id).collect());
        self.last = Some((cpus.clone(), Arc::clone(&mask)));
        mask
    }
}

impl World {
    fn process_snapshot(&self, space: SpaceId, masks: &mut LastCpumask) -> ProcessSnapshot {
        let entry = &self.spaces[space];
        let pages = entry.count_all(self.machine.nodes.len());
        let pages: u64 = pages[..self.machine.nodes.len()].iter().sum();
        let thread = |&task: &TaskId| ThreadSnapshot {
            tid: self.tid(task),
            cpu: self.layout.cpus[self.tasks[task as usize].cpu].id,
            cpu_time_ns: self.current_cpu_time_ns(task),
            waited_ns: self.queued_time_ns(task),
            cpus: masks.cpumask(self, &self.tasks[task as usize].allowed),
        };
        let mut threads: Vec<_> = entry.tasks.iter().map(thread).collect();
        threads.sort_by_key(|thread| thread.tid);
        ProcessSnapshot {
            pid: entry.pid,
            name: kernel_comm(entry),
            started_ticks: space as u64,
            cpu_time_ns: entry.exited_cpu_time_ns
                + threads.iter().map(|t| t.cpu_time_ns).sum::<u64>(),
            children_cpu_time_ns: 0, // processes start no others here
            non_file_bytes: pages * self.machine.params.page_bytes,
            memory_nodes: self.memory_nodes(space),
            frozen: entry.frozen,
            threads,
        }
    }

    /// Returns the CPU time of a task until now.
    fn current_cpu_time_ns(&self, task: TaskId) -> u64 {
        let entry = &self.tasks[task as usize];
        let on_it = self.cpus[entry.cpu].running == Some(task);
        entry.cpu_time_ns + if on_it { self.cpus[entry.cpu].turn_time_ns(self.now_ns) } else { 0 }
    }

    /// Returns the name of a thread: that of its pool, or of its process.
    pub(crate) fn thread_name(&self, task: TaskId) -> Name {
        let Task { space, workload, .. } = self.tasks[task as usize];
        let Some(entry) = space.map(|space| &self.spaces[space]) else { return Name::default() };
        let workload = workload.map(|index| &self.scenario().workloads[index]);
        let at = entry.tasks.iter().position(|&other| other == task);
        match (workload.filter(|workload| workload.pools > 1), at) {
            (Some(workload), Some(at)) => {
                let pool = at as u64 * u64::from(workload.pools) / u64::from(workload.threads);
                comm(&format!("{}-{pool}", workload.name))
            }
            _ => kernel_comm(entry),
        }
    }

    /// Returns the thread of a process with this tid.
    pub(crate) fn task_of_tid(&self, space: SpaceId, tid: u32) -> Option<TaskId> {
        self.spaces[space].tasks.iter().copied().find(|&task| self.tid(task) == tid)
    }

    /// Returns CPUs as indices.
    pub(crate) fn cpu_indices(&self, cpus: &Cpumask) -> CpuIndexSet {
        let places = self.layout.cpus.iter().enumerate();
        CpuIndexSet::of(places.filter(|(_, place)| cpus.contains(place.id)).map(|(cpu, _)| cpu))
    }

    /// Returns the nodes that a process may have memory on.
    fn memory_nodes(&self, space: SpaceId) -> Nodemask {
        let may_have =
            |&node: &usize| self.has_online_memory(node) && self.cpuset_allows(space, node);
        (0..self.machine.nodes.len())
            .filter(may_have)
            .map(|node| self.layout.node_ids[node])
            .collect()
    }

    fn node_snapshots(&self) -> BTreeMap<nodeward_model::NodeId, NodeSnapshot> {
        let snapshot = |node: usize| {
            let zone = &self.memory.zones[node];
            let free_pages = if zone.is_offline { 0 } else { zone.free_pages };
            NodeSnapshot {
                headroom: NodeHeadroom { free_pages, inactive_file_pages: 0 },
                pages: zone.managed_pages,
                foreign_pages: zone.foreign_pages,
                traffic_bytes: Some(self.traffic.carried_bytes(node)),
                bandwidth_bytes_per_s: Some(self.machine.bandwidth_bytes_per_s(node)),
            }
        };
        let nodes = 0..self.machine.nodes.len();
        nodes.map(|node| (self.layout.node_ids[node], snapshot(node))).collect()
    }
}
