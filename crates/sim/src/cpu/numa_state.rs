//! State of the kernel's NUMA balancing, by process and by thread.

use std::collections::BTreeMap;

use nodeward_scenario::Params;

use super::numa_faults::{ACTIVE_NODE_FRACTION, NumaGroup, TaskNumaFaults};
use crate::ids::{SpaceId, TaskId};

/// Maximum number of bytes scanned per second (`MAX_SCAN_WINDOW`).
const WINDOW_BYTES_PER_S: u64 = 2560 << 20;

/// Slots of a period, the unit in which it changes.
const SLOTS: u64 = 10;

/// Threshold in slots, of 10: with a larger part of its faults local or private, a thread scans
/// slower.
const PERIOD_THRESHOLD_SLOTS: u64 = 7;

/// State of NUMA balancing by process and thread.
#[derive(Debug, Default)]
pub struct NumaBalancing {
    /// Scan positions by process.
    pub scans: BTreeMap<SpaceId, ScanCursor>,
    /// Scan timings by thread.
    pub scan_periods: BTreeMap<TaskId, ScanPeriod>,
    /// Fault statistics by thread.
    pub faults: BTreeMap<TaskId, TaskNumaFaults>,
    /// Groups of threads that share pages, by process.
    pub groups: BTreeMap<SpaceId, NumaGroup>,
    /// The last toucher of each page of a region, as far as faults showed: a node and a thread.
    pub last_cpupids: BTreeMap<(SpaceId, usize), Vec<u16>>,
}

/// Scan position of a process.
#[derive(Debug, Default)]
pub struct ScanCursor {
    /// Time of the next scan, in virtual nanoseconds.
    pub next_ns: u64,
    /// Number of completed scans of the whole process.
    pub seq: u32,
    /// The region of the next page to visit.
    pub region: usize,
    /// The next page to visit.
    pub page: u64,
}

/// A thread's scan timing.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScanPeriod {
    /// Run time between two scans.
    pub period_ns: u64,
    /// The run time up to which scans are paid for.
    pub paid_until_ns: u64,
}

impl NumaBalancing {
    /// Returns the fault statistics of a thread.
    pub fn faults(&self, task: TaskId) -> Option<&TaskNumaFaults> {
        self.faults.get(&task)
    }

    /// Returns the group of a process's threads that share pages.
    pub fn group(&self, space: SpaceId) -> Option<&NumaGroup> {
        self.groups.get(&space)
    }

    /// Returns the scan timing of a thread.
    pub fn scan_period(&mut self, params: &Params, task: TaskId) -> &mut ScanPeriod {
        let first = ScanPeriod { period_ns: params.numa_scan_delay_ns, paid_until_ns: 0 };
        self.scan_periods.entry(task).or_insert(first)
    }

    /// Returns the shortest, the longest and the first period of a thread.
    pub fn scan_period_bounds_ns(
        &self,
        params: &Params,
        space: SpaceId,
        rss_pages: u64,
    ) -> (u64, u64, u64) {
        let scanned = (params.numa_scan_bytes / params.page_bytes.max(1)).max(1);
        let windows = rss_pages.div_ceil(scanned).max(1);
        let floor_ns = 1_000_000_000 / (WINDOW_BYTES_PER_S / params.numa_scan_bytes.max(1)).max(1);
        let least_ns = (params.numa_scan_min_ns / windows).max(floor_ns);
        let most_ns = params.numa_scan_max_ns / windows;
        let shared =
            |ns: u64| self.groups.get(&space).map_or(0, |group| group.shared_period_ns(ns));
        let begin_ns = least_ns.max(shared(least_ns));
        (least_ns, least_ns.max(most_ns.max(shared(most_ns))), begin_ns)
    }

    /// Adds a thread that touched a page after another thread had touched it.
    pub fn join(&mut self, space: SpaceId, task: TaskId, nodes: usize) {
        let faults = self.faults.entry(task).or_insert_with(|| TaskNumaFaults::new(nodes));
        if std::mem::replace(&mut faults.in_group, true) {
            return;
        }
        self.groups.entry(space).or_insert_with(|| NumaGroup::new(nodes)).join(faults);
    }

    /// Returns whether a page that several threads touch should move to a node, by where their
    /// faults are.
    pub fn group_favors_move(
        &self,
        task: TaskId,
        space: SpaceId,
        (from, to): (usize, usize),
    ) -> bool {
        let member = self.faults.get(&task).filter(|faults| faults.in_group);
        let Some(group) = self.groups.get(&space).filter(|_| member.is_some()) else {
            return true;
        };
        let (to_cpu, from_cpu) = (group.cpu_faults(to), group.cpu_faults(from));
        if to_cpu > from_cpu * ACTIVE_NODE_FRACTION {
            return true;
        }
        let (to, from) = (group.memory_faults(to), group.memory_faults(from));
        u128::from(to_cpu) * u128::from(from) * 3 > u128::from(from_cpu) * u128::from(to) * 4
    }

    /// Adapts the scan period (`update_task_scan_period`): longer if faults are local or private or
    /// a move failed, else shorter.
    pub fn update_scan_period(
        &mut self,
        params: &Params,
        now_ns: u64,
        task: TaskId,
        space: SpaceId,
        rss_pages: u64,
        [shared, private]: [u64; 2],
    ) {
        let (least_ns, most_ns, _) = self.scan_period_bounds_ns(params, space, rss_pages);
        let Some(faults) = self.faults.get_mut(&task) else { return };
        let (remote, local) =
            (std::mem::take(&mut faults.remote), std::mem::take(&mut faults.local));
        let failed = std::mem::take(&mut faults.failed);
        let pace = self.scan_period(params, task);
        if local + shared == 0 || failed > 0 {
            pace.period_ns = (pace.period_ns * 2).min(most_ns);
            let period_ns = pace.period_ns;
            if let Some(scan) = self.scans.get_mut(&space) {
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

    /// Forgets a thread of a process.
    pub fn forget_task(&mut self, task: TaskId, space: Option<SpaceId>) {
        self.scan_periods.remove(&task);
        let group = space.and_then(|space| self.groups.get_mut(&space));
        if let (Some(faults), Some(group)) = (self.faults.remove(&task), group) {
            group.leave(&faults);
        }
    }

    /// Forgets a process.
    pub fn forget_space(&mut self, space: SpaceId) {
        self.scans.remove(&space);
        self.groups.remove(&space);
        self.last_cpupids.retain(|&(of, _), _| of != space);
    }
}

/// The thread that touched a page: its node and eight bits of its number, as the kernel keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastCpupid {
    /// Its node.
    pub node: usize,
    /// Bits of its number.
    pub task_bits: u8,
}

impl LastCpupid {
    /// Packs it into 16 bits. 0 stands for none.
    pub fn packed(self) -> u16 {
        ((self.node as u16 + 1) << 8) | u16::from(self.task_bits)
    }

    /// Unpacks it, unless there is none.
    pub fn unpacked(packed: u16) -> Option<Self> {
        let node = (packed >> 8).checked_sub(1)?;
        Some(Self { node: usize::from(node), task_bits: packed as u8 })
    }
}
