//! All free pages of the machine.

use nodeward_policy::pcp::TunerKind;
use nodeward_scenario::MachineSpec;

use super::access_counters::AccessCounters;
use super::freed_in_flight::FreedInFlight;
use super::lru_lock::LruLock;
use super::pcp_list::{DeferredFrees, PcpList};
use super::zone::{Zone, huge_pages};
use crate::hardware::MachineLayout;

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
    /// Pages that were freed while they were out of sight.
    pub freed_in_flight: FreedInFlight,
    /// The counters of the memory controllers.
    pub accesses: AccessCounters,
    /// Lists by CPU and node. `None` where no list was used yet.
    pub pcp_lists: Vec<Option<PcpList>>,
    /// Deferred work by CPU.
    pub deferred: Vec<DeferredFrees>,
    /// LRU locks by group and node.
    pub lru_locks: Vec<LruLock>,
    /// The rule for the sizes of lists.
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
            freed_in_flight: FreedInFlight::default(),
            accesses: AccessCounters::new(nodes, machine.params.counter_entries),
            pcp_lists: (0..layout.cpus.len() * nodes).map(|_| None).collect(),
            deferred: vec![DeferredFrees::default(); layout.cpus.len()],
            lru_locks: Vec::new(),
            tuner_kind: TunerKind::ALL[machine.params.pcp_tuning as usize % TunerKind::ALL.len()],
            drains_on_runs: machine.params.pcp_drain > 0,
            tick_cpu: 0,
        }
    }

    /// Returns the base pages of huge pages that are on their way back to a node's zone.
    pub fn huge_pages_being_freed(&self, node: usize, page_bytes: u64) -> u64 {
        let deferred = self.deferred.iter().filter_map(|deferred| deferred.huge_pages);
        let blocks: u64 = deferred.filter(|deferred| deferred.0 == node).map(|of| of.1).sum();
        blocks * huge_pages(page_bytes)
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

impl PhysicalMemory {
    /// Returns a CPU's list of a node, and the node's zone.
    pub fn list_and_zone(&mut self, cpu: usize, node: usize) -> (&mut PcpList, &mut Zone) {
        let (zones, tuning, drains) = (self.zones.len(), self.tuner_kind, self.drains_on_runs);
        let zone = &mut self.zones[node];
        let list = &mut self.pcp_lists[cpu * zones + node];
        (list.get_or_insert_with(|| PcpList::new(tuning, &zone.limits, drains)), zone)
    }

    /// Takes pages from a CPU's list of a node.
    pub fn take_from_list(&mut self, cpu: usize, node: usize, pages: u32) {
        let (list, zone) = self.list_and_zone(cpu, node);
        list.allocate(pages);
        zone.listed_pages -= u64::from(pages);
    }

    /// Returns the number of pages in a CPU's list of a node.
    pub fn pages_in_list(&self, cpu: usize, node: usize) -> u32 {
        let list = &self.pcp_lists[cpu * self.zones.len() + node];
        list.as_ref().map_or(0, |list| list.count)
    }
}
