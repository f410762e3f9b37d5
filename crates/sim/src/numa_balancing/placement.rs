//! Chooses the node that a thread prefers, by its faults and by those of the threads that it shares
//! pages with, and the rate at which its process is scanned.

use super::hint_faults::ACTIVE_NODE_FRACTION;
use super::scan::NumaBalancing;
use crate::cpu::TaskId;
use crate::memory::SpaceId;
use crate::migration::MigrationContext;
use crate::world::World;

/// Slots of a period, the unit in which it changes.
const SLOTS: u64 = 10;
/// Threshold in slots, of 10: with a larger part of its faults local or private, a thread scans
/// slower.
const PERIOD_THRESHOLD_SLOTS: u64 = 7;
/// Interval between two attempts of a thread to move to its preferred node, unless [`RETRY_PART`]
/// makes it shorter.
const RETRY_NS: u64 = 1_000_000_000;
/// The interval is at most this fraction (1/16) of the scan period.
const RETRY_PART: u64 = 16;

/// A hint fault.
#[derive(Clone, Copy, Debug)]
pub struct HintFault {
    /// The node of the page, after its move if it moved.
    pub memory_node: usize,
    /// The node of the thread.
    pub cpu_node: usize,
    /// Whether the same thread touched the page last.
    pub is_private: bool,
    /// Whether the page was on the node of the thread.
    pub is_local: bool,
    /// Whether its move failed.
    pub failed: bool,
}

/// Fault statistics of a thread, by node, for shared and private pages.
#[derive(Clone, Debug)]
pub struct TaskNumaFaults {
    memory: Vec<[u64; 2]>,
    cpu: Vec<[u64; 2]>,
    new_memory: Vec<[u64; 2]>,
    new_cpu: Vec<[u64; 2]>,
    remote: u64,
    local: u64,
    failed: u64,
    /// Whether it shares pages with other threads of its process.
    pub in_group: bool,
    preferred: Option<usize>,
    /// The scan of its process after which it was last placed.
    seq: u32,
    retry_ns: u64,
    /// The time of its last placement, and its run time by then.
    placed_ns: Option<(u64, u64)>,
}

impl TaskNumaFaults {
    /// Creates empty statistics for a machine of `nodes` nodes.
    pub fn new(nodes: usize) -> Self {
        let none = vec![[0; 2]; nodes];
        Self {
            memory: none.clone(),
            cpu: none.clone(),
            new_memory: none.clone(),
            new_cpu: none,
            remote: 0,
            local: 0,
            failed: 0,
            in_group: false,
            preferred: None,
            seq: 0,
            retry_ns: 0,
            placed_ns: None,
        }
    }

    /// Returns whether the thread prefers no node yet, or was only placed in its first scans.
    pub fn is_new(&self, scans: u32) -> bool {
        self.preferred.is_none() || self.seq <= scans
    }

    /// Returns the faults per 1000 on memory of a node.
    pub fn memory_share_milli(&self, node: usize) -> i64 {
        share_milli(&self.memory, node)
    }

    /// Records a fault of a number of pages.
    pub fn record(&mut self, touch: &HintFault, pages: u64) {
        let kind = usize::from(touch.is_private);
        self.new_memory[touch.memory_node][kind] += pages;
        self.new_cpu[touch.cpu_node][kind] += pages;
        self.failed += if touch.failed { pages } else { 0 };
        *if touch.is_local { &mut self.local } else { &mut self.remote } += pages;
    }

    /// Halves old faults and adds those since. Of `period_ns`, the thread ran `ran_ns`. Returns the
    /// new shared and private faults.
    fn decay(&mut self, ran_ns: u64, period_ns: u64) -> [u64; 2] {
        let total = u128::from(self.remote + self.local) + 1;
        let share = (u128::from(ran_ns) << 16) / (u128::from(period_ns) + 1);
        let mut sums = [0; 2];
        for (node, kind) in (0..self.memory.len()).flat_map(|node| [(node, 0), (node, 1)]) {
            let new = std::mem::take(&mut self.new_memory[node][kind]);
            sums[kind] += new;
            let memory = &mut self.memory[node][kind];
            *memory = *memory - *memory / 2 + new;
            let new = u128::from(std::mem::take(&mut self.new_cpu[node][kind]));
            let cpu = &mut self.cpu[node][kind];
            *cpu = *cpu - *cpu / 2 + u64::try_from(share * new / total).unwrap_or(u64::MAX >> 8);
        }
        sums
    }
}

/// Returns the faults per 1000 of a node.
fn share_milli(faults: &[[u64; 2]], node: usize) -> i64 {
    let of = |faults: &[u64; 2]| faults[0] + faults[1];
    let all: u64 = faults.iter().map(of).sum();
    i64::try_from(of(&faults[node]) * 1000 / all.max(1)).unwrap_or(1000)
}

/// Threads of a process that touch the same pages.
#[derive(Clone, Debug)]
pub struct NumaGroup {
    memory: Vec<[u64; 2]>,
    cpu: Vec<[u64; 2]>,
    tasks: u64,
}

impl NumaGroup {
    /// Returns the faults on a node's memory.
    pub fn memory_faults(&self, node: usize) -> u64 {
        self.memory[node].iter().sum()
    }

    /// Returns the faults of threads on a node.
    pub fn cpu_faults(&self, node: usize) -> u64 {
        self.cpu[node].iter().sum()
    }

    /// Returns the faults per 1000 on memory of a node.
    pub fn memory_share_milli(&self, node: usize) -> i64 {
        share_milli(&self.memory, node)
    }

    /// Returns whether the group uses a node.
    pub fn is_active(&self, node: usize) -> bool {
        let most = (0..self.cpu.len()).map(|node| self.cpu_faults(node)).max().unwrap_or(0);
        self.cpu_faults(node) * ACTIVE_NODE_FRACTION > most
    }

    /// Stretches a scan period for a group: by the number of its threads and the share of their
    /// shared faults.
    pub fn shared_period_ns(&self, ns: u64) -> u64 {
        let sum = |kind: usize| self.memory.iter().map(|faults| faults[kind]).sum::<u64>();
        let (shared, private) = (sum(0), sum(1));
        let slowed = u128::from(ns) * u128::from(self.tasks) * u128::from(shared + 1);
        u64::try_from(slowed / u128::from(private + shared + 1)).unwrap_or(u64::MAX)
    }

    fn add_or_subtract(&mut self, faults: &TaskNumaFaults, add: bool) {
        let pairs = [(&mut self.memory, &faults.memory), (&mut self.cpu, &faults.cpu)];
        for (sums, faults) in pairs {
            let kinds = sums.iter_mut().flatten().zip(faults.iter().flatten());
            kinds.for_each(|(sum, &count)| {
                *sum = if add { *sum + count } else { sum.saturating_sub(count) };
            });
        }
    }

    /// Removes a thread.
    pub fn leave(&mut self, faults: &TaskNumaFaults) {
        if faults.in_group {
            self.add_or_subtract(faults, false);
            self.tasks = self.tasks.saturating_sub(1);
        }
    }
}

impl NumaBalancing {
    /// Adds a thread that touched a page after another thread had touched it.
    pub fn join(&mut self, space: SpaceId, task: TaskId, nodes: usize) {
        let faults = self.faults.entry(task).or_insert_with(|| TaskNumaFaults::new(nodes));
        if std::mem::replace(&mut faults.in_group, true) {
            return;
        }
        let none = vec![[0; 2]; nodes];
        let empty = || NumaGroup { memory: none.clone(), cpu: none.clone(), tasks: 0 };
        let group = self.groups.entry(space).or_insert_with(empty);
        group.add_or_subtract(faults, true);
        group.tasks += 1;
    }
}

impl World {
    /// Places a thread after a scan, and sends it to its preferred node at intervals.
    pub(crate) fn place_when_due(&mut self, task: TaskId, way: &MigrationContext) {
        let nodes = self.machine.nodes.len();
        let now_ns = self.now_ns;
        let Some(numa) = self.numa_balancing.as_mut() else { return };
        let faults = numa.faults.entry(task).or_insert_with(|| TaskNumaFaults::new(nodes));
        if now_ns <= faults.retry_ns {
            return;
        }
        let preferred = self.place_by_faults(task, way.space);
        let Some(numa) = self.numa_balancing.as_mut() else { return };
        let period_ns = numa.scan_period(&self.machine.params, task).period_ns;
        if let Some(faults) = numa.faults.get_mut(&task) {
            faults.retry_ns = now_ns + RETRY_NS.min(period_ns / RETRY_PART);
        }
        if let Some(to) = preferred.filter(|&to| to != way.to) {
            self.migrate_to_preferred(task, way.space, to);
        }
    }

    /// Chooses the node that a thread prefers, once after each scan (`task_numa_placement`).
    fn place_by_faults(&mut self, task: TaskId, space: SpaceId) -> Option<usize> {
        let (now_ns, ran_ns) = (self.now_ns, self.tasks[task as usize].cpu_time_ns);
        let rss_pages = self.resident_pages(space);
        let numa = self.numa_balancing.as_mut()?;
        let seq = numa.scans.get(&space).map_or(0, |scan| scan.seq);
        let faults = numa.faults.get_mut(&task)?;
        if faults.seq == seq {
            return faults.preferred;
        }
        faults.seq = seq;
        let (since_ns, had_ns) = faults.placed_ns.replace((now_ns, ran_ns)).unwrap_or((0, 0));
        let group = numa.groups.get_mut(&space).filter(|_| faults.in_group);
        let kinds = match group {
            None => faults.decay(ran_ns - had_ns, now_ns - since_ns),
            Some(group) => {
                group.add_or_subtract(faults, false);
                let kinds = faults.decay(ran_ns - had_ns, now_ns - since_ns);
                group.add_or_subtract(faults, true);
                kinds
            }
        };
        let of = |node: usize| match numa.groups.get(&space).filter(|_| faults.in_group) {
            Some(group) => group.memory_faults(node),
            None => faults.memory[node].iter().sum(),
        };
        let count = self.machine.nodes.len();
        let most = (0..count).rev().max_by_key(|&node| of(node)).filter(|&node| of(node) > 0);
        if most.is_some() {
            faults.preferred = most;
        }
        let preferred = faults.preferred;
        self.update_scan_period(task, space, rss_pages, kinds);
        self.set_home(task, preferred);
        preferred
    }

    /// Adapts the scan period (`update_task_scan_period`): longer if faults are local or private or
    /// a move failed, else shorter.
    fn update_scan_period(
        &mut self,
        task: TaskId,
        space: SpaceId,
        rss_pages: u64,
        [shared, private]: [u64; 2],
    ) {
        let (params, now_ns) = (&self.machine.params, self.now_ns);
        let Some(numa) = self.numa_balancing.as_mut() else { return };
        let (least_ns, most_ns, _) = numa.scan_period_bounds_ns(params, space, rss_pages);
        let Some(faults) = numa.faults.get_mut(&task) else { return };
        let (remote, local) =
            (std::mem::take(&mut faults.remote), std::mem::take(&mut faults.local));
        let failed = std::mem::take(&mut faults.failed);
        let pace = numa.scan_period(params, task);
        if local + shared == 0 || failed > 0 {
            pace.period_ns = (pace.period_ns * 2).min(most_ns);
            let period_ns = pace.period_ns;
            if let Some(scan) = numa.scans.get_mut(&space) {
                scan.next_ns = now_ns + period_ns;
            }
            return;
        }
        let slot_ns = pace.period_ns.div_ceil(SLOTS);
        let near = local * SLOTS / (local + remote).max(1);
        let own = private * SLOTS / (private + shared).max(1);
        let period_ns = match (own >= PERIOD_THRESHOLD_SLOTS, near >= PERIOD_THRESHOLD_SLOTS) {
            (true, _) => pace.period_ns + (own - PERIOD_THRESHOLD_SLOTS).max(1) * slot_ns,
            (false, true) => pace.period_ns + (near - PERIOD_THRESHOLD_SLOTS).max(1) * slot_ns,
            (false, false) => {
                pace.period_ns.saturating_sub((PERIOD_THRESHOLD_SLOTS - near.max(own)) * slot_ns)
            }
        };
        pace.period_ns = period_ns.clamp(least_ns, most_ns);
    }
}
