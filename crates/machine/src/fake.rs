//! A fake machine for tests: a few processes with their pages in a table, moved instantly and by
//! the rules of the kernel.
//!
//! It can inject these faults: pinned pages, full nodes, pages that vanish, a process that exits or
//! calls exec after a number of calls, a kernel that aborts at the first folio that it cannot move,
//! a program that changes its affinity during a nudge, nodes that go offline, another balancer,
//! tasks that stall for lack of memory.

mod call;
mod watch;

pub use watch::{FakeCounters, FakeThread};

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nodeward_model::{
    AffinityOutcome, CpuId, Cpumask, Mapping, MappingKind, MemoryPolicies, Name, NodeHeadroom,
    NodeId, OtherBalancer, Page, PageLocation, Pid, ProcessFilter, ProcessIdentity, Range,
    Synthetic, Topology,
};

use self::call::FakeMovePages;
use crate::{
    CallEnd, Capabilities, EntryStatus, Error, Liveness, Machine, MovePagesCall, MovePagesOutcome,
    Process, ProcessWatch, Result,
};

/// Bytes in a base page of the fake machine.
pub const PAGE_BYTES: u64 = 4096;
const IN_FLIGHT: Page = Page { location: PageLocation::InFlight, ..Page::ABSENT };

/// The state of one process of the fake machine. Tests write it; the machine reads and changes it.
#[derive(Clone, Debug, Default)]
pub struct FakeProcess {
    /// Its mappings.
    pub mappings: Vec<Mapping>,
    /// Its pages, by page number (address / [`PAGE_BYTES`]).
    pub pages: BTreeMap<u64, Page>,
    /// Pages with an extra reference, by page number.
    pub pinned: BTreeSet<u64>,
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
    /// The end of the process, and the call before which it happens (counted from 0).
    pub end_at_call: Option<(u64, Liveness)>,
    /// Calls of `move_pages` so far.
    pub calls: u64,
    /// The longest run of base pages that was held at once so far.
    pub run_pages_max: u64,
    /// The fewest free pages that each node had so far.
    pub free_pages_min: BTreeMap<NodeId, u64>,
    /// Its name; `paper` if that is empty.
    pub name: Name,
    /// The start of the process, which tells it from an earlier process with the same pid.
    pub started_ticks: u64,
    /// Its threads, by thread id.
    pub threads: BTreeMap<u32, FakeThread>,
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
    /// CPU time of the caller that it takes to find a page, in nanoseconds.
    pub locate_ns: u64,
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

    fn liveness(&self) -> Liveness {
        match self.end_at_call {
            Some((calls, life)) if self.calls >= calls => life,
            _ => Liveness::Running,
        }
    }

    /// Returns true if a page stays in flight for some time.
    fn is_in_flight(&self, number: u64) -> bool {
        self.release_after_ns.is_some_and(|ns| ns > 0) && self.in_flight.contains_key(&number)
    }

    fn page(&self, address: u64) -> Page {
        if self.is_in_flight(address / PAGE_BYTES) {
            return IN_FLIGHT;
        }
        self.pages.get(&(address / PAGE_BYTES)).copied().unwrap_or(Page::ABSENT)
    }

    /// Returns a page as the page table shows it. A page in flight arrives after this read.
    fn read_page(&mut self, number: u64) -> Page {
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
    fn folio(&self, address: u64) -> std::ops::Range<u64> {
        let mut head = address / PAGE_BYTES;
        while self.page(head * PAGE_BYTES).folio_pages == 0 && head > 0 {
            head -= 1;
        }
        head..head + u64::from(self.page(head * PAGE_BYTES).folio_pages)
    }
}

/// A fake machine. Time passes only in `sleep_ns`, and by one microsecond for each page moved.
#[derive(Debug, Default)]
pub struct FakeMachine {
    processes: Arc<FakeProcesses>,
    clock_ns: Arc<Mutex<u64>>,
    /// CPU time of the caller.
    own_cpu_time_ns: Arc<Mutex<u64>>,
    /// The process that is the caller.
    own_pid: Option<Pid>,
    move_shared: bool,
    /// The topology, if it is not the default of two nodes with one CPU each.
    topology: Option<Topology>,
    offline: Arc<Mutex<BTreeSet<NodeId>>>,
    other_balancers: Mutex<Vec<OtherBalancer>>,
    counters: Arc<Mutex<FakeCounters>>,
}

/// Processes by pid.
type FakeProcesses = Mutex<BTreeMap<Pid, Arc<Mutex<FakeProcess>>>>;

impl FakeMachine {
    /// Returns a machine without processes. `everyones` permits moving shared pages.
    pub fn new(everyones: bool) -> Self {
        Self { move_shared: everyones, ..Self::default() }
    }

    /// Adds a process.
    pub fn spawn(&self, pid: Pid, process: FakeProcess) {
        lock(&self.processes).insert(pid, Arc::new(Mutex::new(process)));
    }

    /// Returns a machine of another shape, such as `4n 2c 1t 4GiB`.
    ///
    /// # Panics
    /// If the description cannot be parsed.
    pub fn with_topology(everyones: bool, description: &str) -> Self {
        let shape = Synthetic::from_str(description).expect("a description of a machine");
        Self { move_shared: everyones, topology: Some(shape.topology()), ..Self::default() }
    }

    /// Makes one of the processes the caller.
    pub fn with_own_pid(self, own: Pid) -> Self {
        Self { own_pid: Some(own), ..self }
    }

    /// Returns a copy of the present state of a process.
    pub fn process(&self, pid: Pid) -> Option<FakeProcess> {
        lock(&self.processes).get(&pid).map(|process| lock(process).clone())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Machine for FakeMachine {
    fn page_bytes(&self) -> u64 {
        PAGE_BYTES
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { move_shared: self.move_shared, frame_numbers: true, pagemap_scan: true }
    }

    fn topology(&self) -> Result<Topology> {
        let usual = || Synthetic::from_str("2n 1c 1t 4GiB").map(|machine| machine.topology());
        let whole = self.topology.clone().map_or_else(usual, Ok);
        let mut topology = whole.map_err(|_| Error::Unsupported {
            action: "a topology on paper",
            reason: "the description cannot be read".to_owned(),
        })?;
        for node in lock(&self.offline).iter() {
            if let Some(gone) = topology.nodes.remove(node) {
                topology.cpus = topology.cpus.without(&gone.cpus);
            }
        }
        Ok(topology)
    }

    fn headroom(&self) -> Result<BTreeMap<NodeId, NodeHeadroom>> {
        let mut rooms = BTreeMap::new();
        for process in lock(&self.processes).values() {
            let room = |&free_pages| NodeHeadroom { free_pages, inactive_file_pages: 0 };
            rooms.extend(lock(process).free_pages.iter().map(|(&node, pages)| (node, room(pages))));
        }
        Ok(rooms)
    }

    /// Huge pages are made of free pages.
    fn free_huge_pages(&self, node: NodeId, bytes: u64) -> Option<u64> {
        let rooms = self.headroom().ok()?;
        rooms.get(&node).map(|room| room.free_pages * PAGE_BYTES / bytes)
    }

    fn frames_end(&self) -> Option<u64> {
        Some(1 << 20)
    }

    fn usable_cpus(&self) -> Result<Cpumask> {
        Ok(self.topology()?.cpus)
    }

    fn now_ns(&self) -> u64 {
        *lock(&self.clock_ns)
    }

    fn sleep_ns(&self, ns: u64) {
        *lock(&self.clock_ns) += ns;
        lock(&self.processes).values().for_each(|process| lock(process).advance(ns));
        lock(&self.counters).advance(ns);
    }

    fn pin_current_thread(&self, _cpu: CpuId) {}

    fn yield_to_waking_threads(&self) {}

    fn open_process(&self, pid: Pid) -> Result<Arc<dyn Process>> {
        let process = lock(&self.processes).get(&pid).cloned();
        let has_ended =
            |process: &Arc<Mutex<FakeProcess>>| lock(process).liveness() == Liveness::Exited;
        let process = process.filter(|process| !has_ended(process)).ok_or(Error::Gone(pid))?;
        if let Some(need) = lock(&process).denied.clone() {
            return Err(Error::Denied { action: format!("holding process {pid}"), remedy: need });
        }
        let (clock_ns, own_ns) = (Arc::clone(&self.clock_ns), Arc::clone(&self.own_cpu_time_ns));
        let (offline, cpus) = (Arc::clone(&self.offline), self.topology()?.cpus);
        Ok(Arc::new(FakeProcessHandle {
            pid,
            process,
            clock_ns,
            own_cpu_time_ns: own_ns,
            offline,
            cpus,
        }))
    }

    fn watch(&self, wanted: &ProcessFilter) -> Result<Box<dyn ProcessWatch>> {
        Ok(self.new_watch(wanted))
    }

    fn own_pid(&self) -> Option<Pid> {
        self.own_pid
    }

    fn other_balancers(&self) -> Result<Vec<OtherBalancer>> {
        Ok(lock(&self.other_balancers).clone())
    }

    fn own_cpu_time_ns(&self) -> u64 {
        *lock(&self.own_cpu_time_ns)
    }
}

#[derive(Debug)]
struct FakeProcessHandle {
    pid: Pid,
    process: Arc<Mutex<FakeProcess>>,
    clock_ns: Arc<Mutex<u64>>,
    own_cpu_time_ns: Arc<Mutex<u64>>,
    offline: Arc<Mutex<BTreeSet<NodeId>>>,
    /// The CPUs of the machine.
    cpus: Cpumask,
}

impl FakeProcessHandle {
    fn read_pages(&self, range: Range) -> Result<Vec<Page>> {
        let mut process = self.running()?;
        process.page_reads += 1;
        let numbers = range.start / PAGE_BYTES..range.end / PAGE_BYTES;
        Ok(numbers.map(|number| process.read_page(number)).collect())
    }

    fn running(&self) -> Result<MutexGuard<'_, FakeProcess>> {
        let process = lock(&self.process);
        if process.liveness() == Liveness::Running {
            Ok(process)
        } else {
            Err(Error::Gone(self.pid))
        }
    }
}

impl Process for FakeProcessHandle {
    fn pid(&self) -> Pid {
        self.pid
    }

    fn identity(&self) -> Result<ProcessIdentity> {
        self.running().map(|process| ProcessIdentity {
            pid: self.pid,
            name: process.name(),
            boot_id: "paper".to_owned(),
            started_ticks: process.started_ticks,
            auxv_checksum: 0,
        })
    }

    fn liveness(&self) -> Liveness {
        lock(&self.process).liveness()
    }

    fn mappings(&self) -> Result<Vec<Mapping>> {
        Ok(self.running()?.mappings.clone())
    }

    fn resident_bytes(&self) -> Result<u64> {
        Ok(self.running()?.residency().values().sum::<u64>() * PAGE_BYTES)
    }

    fn populated(&self, range: Range) -> Result<Vec<Range>> {
        self.running().map(|_| vec![range])
    }

    fn pages(&self, _mapping: &Mapping, range: Range, into: &mut Vec<Page>) -> Result<()> {
        into.extend(self.read_pages(range)?);
        Ok(())
    }

    fn locations(&self, range: Range, into: &mut Vec<PageLocation>) -> Result<()> {
        into.extend(self.read_pages(range)?.iter().map(|page| page.location));
        Ok(())
    }

    /// On the fake machine, the frame of a page has the page's own number.
    fn frames(&self, range: Range, into: &mut Vec<Option<u64>>) -> Result<()> {
        let numbers = range.start / PAGE_BYTES..range.end / PAGE_BYTES;
        into.extend(numbers.zip(self.read_pages(range)?).map(|(n, page)| page.node().map(|_| n)));
        Ok(())
    }

    fn locate(&self, addresses: &[u64]) -> Result<Vec<PageLocation>> {
        let mut process = self.running()?;
        process.page_reads += 1;
        let took_ns = process.locate_ns * addresses.len() as u64;
        *lock(&self.clock_ns) += took_ns;
        *lock(&self.own_cpu_time_ns) += took_ns;
        Ok(addresses.iter().map(|&address| process.page(address).location).collect())
    }

    fn move_pages(&self, batch: &MovePagesCall) -> Result<MovePagesOutcome> {
        let mut process = self.running()?;
        let leaving = std::mem::take(&mut process.in_flight_on_call);
        process.in_flight.extend(leaving);
        let vanishing = std::mem::take(&mut process.unmapped_on_call);
        process.pages.retain(|number, _| !vanishing.contains(number));
        let forbidden = process.forbidden_nodes.clone();
        process.forbidden_nodes.extend(lock(&self.offline).iter());
        let (end, mut status) = FakeMovePages::execute(&mut process, batch);
        process.forbidden_nodes = forbidden;
        status.resize(batch.len(), EntryStatus::Unwritten);
        *lock(&self.clock_ns) += 1000 * batch.len() as u64;
        *lock(&self.own_cpu_time_ns) += process.move_ns * batch.len() as u64;
        process.calls += 1;
        let end = if process.liveness() == Liveness::Running { end } else { CallEnd::Gone };
        Ok(MovePagesOutcome { end, status })
    }

    fn memory_policies(&self) -> Result<MemoryPolicies> {
        let mut process = self.running()?;
        process.page_reads += 1;
        Ok(process.memory_policies.clone())
    }

    fn nudge(&self, tid: u32, cpus: &Cpumask) -> Result<AffinityOutcome> {
        Ok(self.running()?.set_affinity(tid, cpus, None))
    }

    fn pin(&self, tid: u32, cpus: &Cpumask) -> Result<AffinityOutcome> {
        Ok(self.running()?.set_affinity(tid, cpus, Some(&self.cpus)))
    }
}
