//! The fake machine: its processes, its clock and its nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::{Arc, Mutex};

use nodeward_model::{
    AccessSample, CpuId, Cpumask, NodeHeadroom, NodeId, OtherBalancer, Pid, ProcessFilter,
    Synthetic, Topology, ZoneLists,
};

use super::access_source::{FakeAccessSource, WaitingAccesses};
use super::counters::FakeCounters;
use super::lock::lock;
use super::numa_balancing::{self, FakeNumaBalancing};
use super::process::{FakeProcess, FakeProcesses, PAGE_BYTES};
use super::process_handle::FakeProcessHandle;
use super::thread_log::{FakeThreadLog, FakeThreadRecords};
use crate::{
    AccessBatch, AccessSource, AccessSourceKind, AccessSourceStatus, Capabilities, Error, Liveness,
    Machine, NumaBalancingSwitch, Process, ProcessWatch, Result, ThreadRecords, WorkerRegistry,
};

/// A fake machine. Time passes only in `sleep_ns`, and by one microsecond for each page moved.
#[derive(Debug, Default)]
pub struct FakeMachine {
    pub(super) processes: Arc<FakeProcesses>,
    pub(super) clock_ns: Arc<Mutex<u64>>,
    /// CPU time of the caller.
    pub(super) own_cpu_time_ns: Arc<Mutex<u64>>,
    /// The process that is the caller.
    pub(super) own_pid: Option<Pid>,
    pub(super) move_shared: bool,
    pub(super) lacks_pagemap_scan: bool,
    /// The topology, if it is not the default of two nodes with one CPU each.
    pub(super) topology: Option<Topology>,
    pub(super) offline: Arc<Mutex<BTreeSet<NodeId>>>,
    pub(super) other_balancers: Mutex<Vec<OtherBalancer>>,
    pub(super) numa_balancing: Arc<Mutex<FakeNumaBalancing>>,
    pub(super) counters: Arc<Mutex<FakeCounters>>,
    pub(super) accesses: Arc<Mutex<WaitingAccesses>>,
    pub(super) thread_log: Arc<Mutex<FakeThreadLog>>,
    pub(super) page_lists: Vec<ZoneLists>,
    /// The nice values that the caller gave itself, one after the other.
    pub(super) nice_values: Mutex<Vec<i8>>,
}

impl FakeMachine {
    /// Returns a machine without processes. `move_shared` permits moving shared pages.
    pub fn new(move_shared: bool) -> Self {
        Self { move_shared, ..Self::default() }
    }

    /// Adds a process.
    pub fn spawn(&self, pid: Pid, process: FakeProcess) {
        lock(&self.processes).insert(pid, Arc::new(Mutex::new(process)));
    }

    /// Returns a machine of another shape, such as `4n 2c 1t 4GiB`.
    ///
    /// # Panics
    /// If the description cannot be parsed.
    pub fn with_topology(move_shared: bool, description: &str) -> Self {
        let shape = Synthetic::from_str(description).expect("a description of a machine");
        Self { move_shared, topology: Some(shape.topology()), ..Self::default() }
    }

    /// Takes away the list of populated ranges, as on a kernel before 6.7.
    pub fn without_pagemap_scan(self) -> Self {
        Self { lacks_pagemap_scan: true, ..self }
    }

    /// Gives it page lists.
    pub fn with_page_lists(self, page_lists: Vec<ZoneLists>) -> Self {
        Self { page_lists, ..self }
    }

    /// Makes one of the processes the caller.
    pub fn with_own_pid(self, own: Pid) -> Self {
        Self { own_pid: Some(own), ..self }
    }

    /// Enters samples of a timer, each of which stands for this time. The machine has the source
    /// `registers` from then on.
    pub fn add_accesses(&self, samples: &[AccessSample], sample_ns: u64) {
        let mut waiting = lock(&self.accesses);
        let batch = waiting.entry(AccessSourceKind::Registers).or_default();
        batch.samples.extend_from_slice(samples);
        batch.sample_ns = Some(sample_ns);
    }

    /// Sets the write faults that wait to be taken. The machine has the source `soft-dirty` from
    /// then on.
    pub fn set_write_faults(&self, faults: &[AccessSample]) {
        let batch = AccessBatch { samples: faults.to_vec(), ..AccessBatch::default() };
        lock(&self.accesses).insert(AccessSourceKind::SoftDirty, batch);
    }

    /// Returns the number of write faults that wait to be taken.
    pub fn write_faults_waiting(&self) -> usize {
        let waiting = lock(&self.accesses);
        waiting.get(&AccessSourceKind::SoftDirty).map_or(0, |batch| batch.samples.len())
    }

    /// Returns the nice values that the caller gave itself, one after the other.
    pub fn nice_values(&self) -> Vec<i8> {
        lock(&self.nice_values).clone()
    }

    /// Returns a copy of the present state of a process.
    pub fn process(&self, pid: Pid) -> Option<FakeProcess> {
        lock(&self.processes).get(&pid).map(|process| lock(process).clone())
    }
}

impl WorkerRegistry for FakeMachine {}

impl Machine for FakeMachine {
    fn page_bytes(&self) -> u64 {
        PAGE_BYTES
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            move_shared: self.move_shared,
            frame_numbers: true,
            pagemap_scan: !self.lacks_pagemap_scan,
        }
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

    fn page_lists(&self) -> Result<Vec<ZoneLists>> {
        Ok(self.page_lists.clone())
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

    fn renice_current_thread(&self, nice: i8) -> Option<i8> {
        let mut values = lock(&self.nice_values);
        let before = values.last().copied().unwrap_or(0);
        values.push(nice);
        Some(before)
    }

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
        let processes = Arc::clone(&self.processes);
        Ok(Arc::new(FakeProcessHandle {
            pid,
            process,
            processes,
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
        let others = lock(&self.other_balancers).clone().into_iter();
        Ok(lock(&self.numa_balancing).rival().into_iter().chain(others).collect())
    }

    fn hold_numa_balancing(&self) -> Result<Option<Box<dyn NumaBalancingSwitch>>> {
        numa_balancing::hold(&self.numa_balancing)
    }

    fn access_sources(&self) -> Vec<AccessSourceStatus> {
        let status = |&kind: &AccessSourceKind| AccessSourceStatus {
            kind,
            obstacle: None,
            blind_to: "what the test leaves out",
            price: "nothing",
        };
        lock(&self.accesses).keys().map(status).collect()
    }

    fn open_access_source(&self, kind: AccessSourceKind) -> Result<Box<dyn AccessSource>> {
        if !self.access_sources().iter().any(|status| status.kind == kind) {
            return Err(Error::Unsupported {
                action: "observing accesses",
                reason: format!("no test gave this machine the source '{kind}'"),
            });
        }
        Ok(Box::new(FakeAccessSource {
            accesses: Arc::clone(&self.accesses),
            processes: Arc::clone(&self.processes),
            kind,
            pids: Vec::new(),
        }))
    }

    fn open_thread_records(&self) -> Result<Box<dyn ThreadRecords>> {
        Ok(Box::new(FakeThreadRecords::open(&self.thread_log)?))
    }

    fn idle_ns(&self) -> Option<u64> {
        lock(&self.counters).idle_ns
    }

    fn own_cpu_time_ns(&self) -> u64 {
        *lock(&self.own_cpu_time_ns)
    }
}
