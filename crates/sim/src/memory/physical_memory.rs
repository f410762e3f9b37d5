//! All free pages of the machine.

use nodeward_policy::pcp::TunerKind;
use nodeward_scenario::MachineSpec;

use super::access_counters::AccessCounters;
use super::lru::LruLock;
use super::pcp_list::{DeferredFrees, PcpList};
use super::zone::{Zone, huge_pages};
use crate::hardware::MachineLayout;
use crate::world::World;

/// The longest row of faults, or of freed pages, in one step. An urgent task waits at most this
/// long for the CPU.
pub const STEP_NS: u64 = 250_000;

/// All free pages.
#[derive(Debug)]
pub struct PhysicalMemory {
    /// Zones by node.
    pub zones: Vec<Zone>,
    /// Pages by node that are neither free nor in a region: copies that movers are about to map.
    pub copy_targets: Vec<u64>,
    /// Pages by node that hold kernel buffers, or that tests took.
    pub kernel_pages: Vec<u64>,
    /// The counters of the memory controllers.
    pub accesses: AccessCounters,
    /// Lists by CPU and node. `None` where no list was used yet.
    pub pcp_lists: Vec<Option<PcpList>>,
    /// Deferred work by CPU.
    pub deferred: Vec<DeferredFrees>,
    /// LRU locks by group and node.
    pub lru_locks: Vec<LruLock>,
    pub tuner_kind: TunerKind,
    /// Whether runs drain lists.
    pub drains_on_runs: bool,
    /// The CPU whose lists the next tick visits.
    pub tick_cpu: usize,
}

/// The result of one step.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageProgress {
    /// Pages processed.
    pub pages: u64,
    /// Time taken, in nanoseconds.
    pub ns: u64,
}

impl PhysicalMemory {
    /// Creates the memory of a machine, all of it free.
    pub fn new(machine: &MachineSpec, layout: &MachineLayout) -> Self {
        let nodes = machine.nodes.len();
        let zone = |node: usize| {
            // Lists of a node without CPUs are divided among all CPUs.
            let cpus = match layout.cpus_of_node[node].len() {
                0 => layout.cpus.len(),
                cpus => cpus,
            };
            Zone::new(machine, node, cpus as u64)
        };
        Self {
            zones: (0..nodes).map(zone).collect(),
            copy_targets: vec![0; nodes],
            kernel_pages: vec![0; nodes],
            accesses: AccessCounters::new(nodes, machine.params.counter_entries),
            pcp_lists: (0..layout.cpus.len() * nodes).map(|_| None).collect(),
            deferred: vec![DeferredFrees::default(); layout.cpus.len()],
            lru_locks: Vec::new(),
            tuner_kind: TunerKind::ALL[machine.params.pcp_tuning as usize % TunerKind::ALL.len()],
            drains_on_runs: machine.params.pcp_drain > 0,
            tick_cpu: 0,
        }
    }

    /// Returns the unused pages of a node, those in lists included.
    pub fn free(&self, node: usize) -> u64 {
        self.zones[node].free_pages + self.zones[node].listed_pages
    }

    /// Returns the pages of a node that are in lists or on their way to the zone, counted list by
    /// list.
    pub fn pages_in_lists(&self, node: usize) -> u64 {
        let lists = self.pcp_lists.iter().skip(node).step_by(self.zones.len()).flatten();
        lists.map(|list| u64::from(list.count)).sum()
    }
}

impl World {
    /// Returns whether all processes have ended.
    pub fn all_processes_ended(&self) -> bool {
        self.spaces.iter().all(|space| space.ended)
    }

    /// Returns the pages of a node (by index) that are in lists of CPUs.
    pub fn pages_in_lists_on(&self, node: usize) -> u64 {
        self.memory.zones[node].listed_pages
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

    /// Returns the base pages of huge pages that are on their way back to a node's zone.
    pub(crate) fn huge_pages_being_freed(&self, node: usize) -> u64 {
        let owed = self.memory.deferred.iter().filter_map(|owed| owed.huge_pages);
        let blocks: u64 = owed.filter(|owed| owed.0 == node).map(|owed| owed.1).sum();
        blocks * huge_pages(self.machine.params.page_bytes)
    }

    /// Checks that no page was lost or created: the free, listed, held and mapped pages of a node
    /// add up to all its pages.
    ///
    /// # Errors
    /// The first node where they do not, with its counts.
    pub fn check_pages(&self) -> Result<(), String> {
        let nodes = self.machine.nodes.len();
        let mut used = vec![0; nodes + 2];
        for space in &self.spaces {
            used.iter_mut().zip(space.count_all(nodes)).for_each(|(sum, count)| *sum += count);
        }
        for (node, zone) in self.memory.zones.iter().enumerate() {
            let owed = self.huge_pages_being_freed(node);
            let (free, listed) = (zone.free_pages, self.memory.pages_in_lists(node) + owed);
            if zone.listed_pages + owed != listed {
                let sum = zone.listed_pages + owed;
                return Err(format!("node {node} has {listed} pages in lists, but {sum} in sum"));
            }
            let held = self.memory.copy_targets[node] + self.memory.kernel_pages[node];
            let (used, all) = (used[node], zone.managed_pages);
            if free + listed + held + used != all {
                return Err(format!(
                    "node {node} has {all} pages, but {free} are free, {listed} in lists, {held} \
                     held and {used} in use"
                ));
            }
        }
        Ok(())
    }
}
