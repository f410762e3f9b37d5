//! A process of the fake machine, with its pages in a table.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use nodeward_model::{
    Cpumask, Mapping, MappingKind, MappingOrigin, MemoryPolicies, Name, NodeId, Page, PageLocation,
    Pid, Range,
};

use super::thread::FakeThread;
use crate::{CollapseOutcome, CollapseRefusal, Liveness};

/// Bytes in a base page of the fake machine.
pub const PAGE_BYTES: u64 = 4096;
const IN_FLIGHT: Page = Page { location: PageLocation::InFlight, ..Page::ABSENT };

/// Processes by pid.
pub(super) type FakeProcesses = Mutex<BTreeMap<Pid, Arc<Mutex<FakeProcess>>>>;

/// The state of one process of the fake machine. Tests write it; the machine reads and changes it.
#[derive(Clone, Debug, Default)]
pub struct FakeProcess {
    /// Its mappings.
    pub mappings: Vec<Mapping>,
    /// Its pages, by page number (address / [`PAGE_BYTES`]).
    pub pages: BTreeMap<u64, Page>,
    /// Pages with an extra reference, by page number.
    pub pinned: BTreeSet<u64>,
    /// The bytes that the kernel counts as pinned; it need not count all.
    pub pinned_bytes: u64,
    /// Free pages on each node; a node that is missing has no limit.
    pub free_pages: BTreeMap<NodeId, u64>,
    /// Nodes that the cpuset forbids.
    pub forbidden_nodes: BTreeSet<NodeId>,
    /// Pages that are freed as soon as a call has begun, by page number.
    pub unmapped_on_call: BTreeSet<u64>,
    /// Pages that are in flight when they are first read, and the nodes where they arrive right
    /// afterwards, by page number.
    pub in_flight: BTreeMap<u64, NodeId>,
    /// Pages that come into flight as soon as a call has begun, and the nodes where they arrive, by
    /// page number.
    pub in_flight_on_call: BTreeMap<u64, NodeId>,
    /// The time until pinned pages are released and pages in flight arrive. Without it pinned pages
    /// stay pinned for ever, and pages in flight arrive at once.
    pub release_after_ns: Option<u64>,
    /// Parts that are not collapsed into huge pages, by the number of their first page.
    pub collapse_refusals: BTreeMap<u64, CollapseRefusal>,
    /// The end of the process, and the call before which it happens (counted from 0).
    pub end_at_call: Option<(u64, Liveness)>,
    /// Calls of `move_pages` so far.
    pub calls: u64,
    /// Calls of `migrate_pages` so far.
    pub walks: u64,
    /// The longest run of base pages that was held at once so far.
    pub run_pages_max: u64,
    /// The fewest free pages that each node had so far.
    pub free_pages_min: BTreeMap<NodeId, u64>,
    /// Its name; `paper` if that is empty.
    pub name: Name,
    /// The start of the process, which tells it from an earlier process with the same pid.
    pub started_ticks: u64,
    /// The user that it runs as.
    pub user: u32,
    /// The path of its program.
    pub executable: Option<PathBuf>,
    /// Its control group.
    pub cgroup: Option<PathBuf>,
    /// Its threads, by thread id.
    pub threads: BTreeMap<u32, FakeThread>,
    /// Threads that snapshots do not show.
    pub unseen_threads: BTreeSet<u32>,
    /// CPU time of threads that exited, in nanoseconds.
    pub ended_threads_ns: u64,
    /// CPU time of child processes that exited and were waited for, in nanoseconds.
    pub children_cpu_time_ns: u64,
    /// The memory policies that the program has set.
    pub memory_policies: MemoryPolicies,
    /// True if its control group is frozen.
    pub frozen: bool,
    /// The advice in the `Denied` error of a caller without permission to read or change the
    /// process; `None` permits it.
    pub denied: Option<String>,
    /// The nudge or pin (counted from 0) during which the program changes the affinity of all its
    /// threads, and the new affinity. The change happens after the affinity was narrowed and before
    /// it is restored.
    pub affinity_change: Option<(u64, Cpumask)>,
    /// Nudges and pins so far.
    pub affinity_calls: u64,
    /// Cheap samples so far, taken together with all other processes.
    pub snapshots: u64,
    /// Expensive reads so far: of pages and of memory policies.
    pub page_reads: u64,
    /// Reads so far of what the kernel's NUMA balancing has done for a thread.
    pub numa_activity_reads: u64,
    /// CPU time of the caller that it takes to find a page, in nanoseconds.
    pub locate_ns: u64,
    /// CPU time of the caller that it takes to read the state of a page, in nanoseconds.
    pub read_ns: u64,
    /// CPU time of the caller that it takes to move a page, in nanoseconds.
    pub move_ns: u64,
}

impl FakeProcess {
    /// Returns a process with one anonymous mapping at 64 KiB that holds the given pages.
    pub fn with_pages(pages: &[Page]) -> Self {
        let first = 16;
        let range = Range::new(first * PAGE_BYTES, (first + pages.len() as u64) * PAGE_BYTES);
        let mapping = Mapping {
            range,
            kind: MappingKind::Anonymous,
            shared: false,
            huge_page_bytes: None,
            path: Name::default(),
            segment: None,
            origin: MappingOrigin::default(),
        };
        let pages = (first..).zip(pages.iter().copied()).collect();
        Self { mappings: vec![mapping], pages, ..Self::default() }
    }

    /// Returns the number of pages on each node.
    pub fn residency(&self) -> BTreeMap<NodeId, u64> {
        let mut counts = BTreeMap::new();
        for node in self.pages.values().filter_map(|page| page.node()) {
            *counts.entry(node).or_default() += 1;
        }
        counts
    }

    /// Makes one folio of the pages of a part, if all are there.
    pub(super) fn collapse(&mut self, part: Range) -> CollapseOutcome {
        let numbers = part.start / PAGE_BYTES..part.end / PAGE_BYTES;
        if let Some(&refusal) = self.collapse_refusals.get(&numbers.start) {
            return CollapseOutcome::Refused(refusal);
        }
        let all = (numbers.end - numbers.start) as usize;
        if self.pages.range(numbers.clone()).count() < all {
            return CollapseOutcome::Refused(CollapseRefusal::NotEligible);
        }
        for (number, page) in self.pages.range_mut(numbers.clone()) {
            page.folio_pages = if *number == numbers.start { all as u32 } else { 0 };
        }
        CollapseOutcome::Collapsed
    }

    /// Makes a folio of each page of a folio that nobody holds.
    pub(super) fn split_folio(&mut self, folio: Range) -> bool {
        let numbers = folio.start / PAGE_BYTES..folio.end / PAGE_BYTES;
        if numbers.clone().any(|number| self.pinned.contains(&number)) {
            return false;
        }
        self.pages.range_mut(numbers).for_each(|(_, page)| page.folio_pages = 1);
        true
    }

    pub(super) fn liveness(&self) -> Liveness {
        match self.end_at_call {
            Some((calls, life)) if self.calls >= calls => life,
            _ => Liveness::Running,
        }
    }

    /// Returns true if a page stays in flight for some time.
    pub(super) fn is_in_flight(&self, number: u64) -> bool {
        self.release_after_ns.is_some_and(|ns| ns > 0) && self.in_flight.contains_key(&number)
    }

    pub(super) fn page(&self, address: u64) -> Page {
        if self.is_in_flight(address / PAGE_BYTES) {
            return IN_FLIGHT;
        }
        self.pages.get(&(address / PAGE_BYTES)).copied().unwrap_or(Page::ABSENT)
    }

    /// Returns a page as the page table shows it. A page in flight arrives after this read.
    pub(super) fn read_page(&mut self, number: u64) -> Page {
        match self.in_flight.get(&number) {
            Some(&node) if !self.is_in_flight(number) => {
                self.in_flight.remove(&number);
                self.pages.insert(number, Page::on(node));
                IN_FLIGHT
            }
            _ => self.page(number * PAGE_BYTES),
        }
    }

    /// Returns the page numbers of the folio around an address.
    pub(super) fn folio(&self, address: u64) -> std::ops::Range<u64> {
        let mut head = address / PAGE_BYTES;
        while self.page(head * PAGE_BYTES).folio_pages == 0 && head > 0 {
            head -= 1;
        }
        head..head + u64::from(self.page(head * PAGE_BYTES).folio_pages)
    }
}
