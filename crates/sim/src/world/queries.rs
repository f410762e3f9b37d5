//! Queries on a world while it runs.

use nodeward_model::{Cpumask, Pid};
use nodeward_scenario::Scenario;

use super::state::{WorkEnds, World};
use crate::ids::{SpaceId, TaskId};
use crate::memory::{AddressSpace, ListView};

/// Number of the first thread that is not the first of its process. It is above all pids.
const FIRST_TID: u32 = 1 << 23;

impl World {
    /// Returns its scenario.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// Returns the virtual time, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Returns the busy time of all CPUs, up to the beginning of their turns, in nanoseconds.
    pub fn busy_ns(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.busy_ns).sum()
    }

    /// Returns the number of items that events visited and that grow with the machine: flows of
    /// turns, pipes, CPUs and nodes that the scheduler compares. It represents the cost of an
    /// event, which must not grow with the machine; only the event queue costs the logarithm of its
    /// length.
    pub fn steps(&self) -> u64 {
        self.steps + self.traffic.updates()
    }

    /// Returns a hash of everything that has happened.
    pub fn trace_hash(&self) -> u64 {
        self.trace.value()
    }

    /// Returns whether all processes have ended.
    pub fn all_processes_ended(&self) -> bool {
        self.spaces.iter().all(|space| space.ended || space.is_segment())
    }

    /// Returns when work was done.
    pub fn work_ends(&self) -> WorkEnds {
        self.work_ends
    }

    /// Returns the pages of a node (by index) that are in lists of CPUs.
    pub fn pages_in_lists_on(&self, node: usize) -> u64 {
        self.memory.zones[node].listed_pages()
    }

    /// Returns the unused pages of a node (by index), those in lists included.
    pub fn free_on(&self, node: usize) -> u64 {
        self.memory.free(node)
    }

    /// Returns the memory that the simulator needs to record all pages, in bytes.
    pub fn page_state_bytes(&self) -> usize {
        let regions = self.spaces.iter().flat_map(|space| &space.regions);
        regions.map(|region| region.state_bytes()).sum()
    }

    /// Returns the lists of free pages that were used so far, by CPU and node.
    pub fn lists(&self) -> Vec<ListView> {
        self.memory.list_views(&self.layout)
    }

    /// Returns the number of lines that were not counted because no access counter was left.
    pub fn lost_accesses(&self) -> u64 {
        self.memory.accesses.lost_lines()
    }

    /// Returns whether a node is in a process's cpuset.
    pub(crate) fn cpuset_allows(&self, space: SpaceId, node: usize) -> bool {
        let cpuset = self.spaces[space].cpuset.as_ref();
        cpuset.is_none_or(|nodes| nodes.contains(self.layout.node_ids[node]))
    }

    /// Returns the tid of a thread: the first thread of a process has the pid as its tid.
    pub(crate) fn tid(&self, task: TaskId) -> u32 {
        let space = self.tasks[task as usize].space.map(|space| &self.spaces[space]);
        let first = space.filter(|space| space.leader == Some(task));
        first.map_or(FIRST_TID + task, |space| space.pid.number())
    }

    /// Returns the node for a process's fresh pages, if the scheduler gives memory a home, too.
    pub(crate) fn memory_home(&self, space: SpaceId) -> Option<usize> {
        self.sched.sched_numa.as_ref()?;
        self.tasks[*self.spaces[space].tasks.first()? as usize].home
    }

    /// Returns the process with this pid, if it has not ended.
    pub(crate) fn space_of(&self, pid: Pid) -> Option<SpaceId> {
        let is_it = |space: &AddressSpace| space.pid == pid && !space.ended && !space.is_segment();
        self.spaces.iter().position(is_it)
    }

    /// Returns whether a CPU is online, by index.
    pub(crate) fn is_cpu_online(&self, cpu: usize) -> bool {
        self.offline_cpus.is_online(cpu)
    }

    /// Returns the CPUs that are online, by number.
    pub(crate) fn online_cpus(&self) -> Cpumask {
        let places = self.layout.cpus.iter().enumerate();
        places.filter(|&(cpu, _)| self.is_cpu_online(cpu)).map(|(_, place)| place.id).collect()
    }

    /// Returns whether memory of a node (by index) is available.
    pub(crate) fn has_online_memory(&self, node: usize) -> bool {
        !self.memory.zones[node].is_offline && self.memory.zones[node].managed_pages > 0
    }

    /// Returns whether a process was forked by an action.
    pub(crate) fn is_child(&self, space: SpaceId) -> bool {
        self.fork_relations.parents.contains_key(&space)
    }
}
