//! A world as a machine that nodeward can work on, like the running kernel.
//!
//! An operation that takes time (a move, a wait) advances the world by that time, and with it all
//! that runs there. Reading where pages are costs no time; reading processes does. The caller is
//! root, and frame numbers are hidden.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodeward_machine::{
    AccessSource, AccessSourceKind, AccessSourceStatus, Capabilities, Error, Machine, Process,
    ProcessWatch, Result, ThreadRecords, WorkerRegistry,
};
use nodeward_model::{
    Access, CpuId, Cpumask, NodeHeadroom, NodeId, OtherBalancer, Pid, ProcessFilter, Topology,
};
use nodeward_scenario::Scenario;

use super::access_source::{self, SimAccessSource, read_counters};
use super::lockstep::{SharedWorld, WaitUntil};
use super::move_call::ProcessMemory;
use super::process::SimProcess;
use super::process_watch::SimWatch;
use super::thread_records::SimThreadRecords;
use super::topology::hardware_topology;
use crate::memory::{AddressSpace, MemoryRegion, Zone};
use crate::output::{SimReport, Timeline};
use crate::world::{WorkEnds, World};

/// Interval at which population of memory is checked, in virtual nanoseconds.
const POLL_NS: u64 = 1_000_000;

/// A simulated machine with its workloads.
#[derive(Clone)]
pub struct SimMachine {
    pub(crate) shared: Arc<SharedWorld>,
    page_bytes: u64,
}

/// A simulated process, seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessView {
    /// Its pid.
    pub pid: Pid,
    /// Its name.
    pub name: String,
    /// Its base pages by node.
    pub pages: BTreeMap<NodeId, u64>,
    /// Its work so far: lines, pages, messages or lives.
    pub done: u64,
}

impl SimMachine {
    /// Creates a machine at its beginning.
    pub fn new(scenario: &Scenario, seed: u64) -> Self {
        Self::from_world(World::new(scenario, seed))
    }

    /// Returns the accesses that its memory controllers counted since the last call, each with the
    /// process that owns the page, and clears them; `None` if they count nothing.
    pub fn take_accesses(&self) -> Option<Vec<(Pid, Access)>> {
        let world = &mut self.shared.lock().world;
        let seen = read_counters(world);
        (world.machine.params.counter_entries > 0).then_some(seen)
    }

    /// Wraps a world as a machine.
    pub fn from_world(world: World) -> Self {
        let page_bytes = world.machine.params.page_bytes;
        Self { shared: Arc::new(SharedWorld::new(world)), page_bytes }
    }

    /// Runs it until a time, in virtual nanoseconds.
    pub fn run_until(&self, at_ns: u64) {
        self.shared.lock().world.run_until(at_ns);
    }

    /// Runs it until every process has all its pages in memory, or until the virtual time
    /// `most_ns`.
    pub fn run_until_populated(&self, most_ns: u64) {
        let mut lockstep = self.shared.lock();
        let world = &mut lockstep.world;
        while world.now_ns < most_ns && !is_populated(world) {
            world.run_until((world.now_ns + POLL_NS).min(most_ns));
        }
    }

    /// Runs it until a time, in virtual nanoseconds, or until all work is done, of a scenario that
    /// lasts until then.
    pub fn run_until_done(&self, at_ns: u64) {
        let mut lockstep = self.shared.lock();
        let world = &mut lockstep.world;
        while world.now_ns < at_ns && world.work_ends().last_ns.is_none() {
            world.run_until((world.now_ns + POLL_NS).min(at_ns));
        }
    }

    /// Returns when work was done, of a scenario that lasts until all is.
    pub fn work_ends(&self) -> WorkEnds {
        self.shared.lock().world.work_ends()
    }

    /// Returns the processes that run, by pid.
    pub fn processes(&self) -> Vec<ProcessView> {
        let lockstep = self.shared.lock();
        let world = &lockstep.world;
        let is_process = |&space: &usize| {
            let entry = &world.spaces[space];
            !entry.ended && !entry.is_segment()
        };
        let running = (0..world.spaces.len()).filter(is_process);
        let mut views: Vec<_> =
            running.map(|space| process_view(world, &world.spaces[space])).collect();
        views.sort_by_key(|process| process.pid);
        views
    }

    /// Returns local and remote accesses and moved pages over time, at the scenario's `sample`
    /// interval.
    pub fn timeline(&self) -> Timeline {
        let lockstep = self.shared.lock();
        let mut points = lockstep.world.recorder.series.points().to_vec();
        points.push(lockstep.world.point());
        Timeline::of(points)
    }

    /// Returns the work of all processes of a workload so far, including those that ended: lines,
    /// pages, messages or lives.
    pub fn work_of(&self, workload: &str) -> u64 {
        self.shared.lock().world.counters.work_done.get(workload).copied().unwrap_or(0)
    }

    /// Returns the report of the run so far.
    pub fn report(&self) -> SimReport {
        self.shared.lock().world.report()
    }

    /// Returns a hash of everything that has happened.
    pub fn trace_hash(&self) -> u64 {
        self.shared.lock().world.trace_hash()
    }
}

fn is_populated(world: &World) -> bool {
    let nodes = world.machine.nodes.len();
    let whole = |space: &AddressSpace| {
        let pages: u64 = space.regions.iter().map(|region: &MemoryRegion| region.pages).sum();
        space.count_all(nodes)[..nodes].iter().sum::<u64>() == pages
    };
    let is_meant = |&space: &usize| !world.spaces[space].ended && !world.is_child(space);
    (0..world.spaces.len()).filter(is_meant).all(|space| whole(&world.spaces[space]))
}

fn process_view(world: &World, space: &AddressSpace) -> ProcessView {
    let counts = space.count_all(world.machine.nodes.len());
    let pages = world.layout.node_ids.iter().copied().zip(counts);
    ProcessView {
        pid: space.pid,
        name: space.name.clone(),
        pages: pages.filter(|&(_, pages)| pages > 0).collect(),
        done: space.work_done,
    }
}

impl WorkerRegistry for SimMachine {
    fn register_worker(&self, number: u32, of: u32) {
        self.shared.register_worker(number, of);
    }

    fn unregister_worker(&self) {
        self.shared.unregister_worker();
    }
}

impl Machine for SimMachine {
    fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { move_shared: true, frame_numbers: false, pagemap_scan: true }
    }

    fn topology(&self) -> Result<Topology> {
        Ok(hardware_topology(&self.shared.lock().world))
    }

    fn headroom(&self) -> Result<BTreeMap<NodeId, NodeHeadroom>> {
        let lockstep = self.shared.lock();
        let zones = lockstep.world.memory.zones.iter();
        let free_pages = |zone: &Zone| if zone.is_offline { 0 } else { zone.free_pages };
        let room = |zone| NodeHeadroom { free_pages: free_pages(zone), inactive_file_pages: 0 };
        let ids = lockstep.world.layout.node_ids.iter().copied();
        Ok(ids.zip(zones.map(room)).collect())
    }

    fn frames_end(&self) -> Option<u64> {
        None
    }

    fn usable_cpus(&self) -> Result<Cpumask> {
        Ok(self.shared.lock().world.online_cpus())
    }

    fn now_ns(&self) -> u64 {
        self.shared.lock().world.now_ns
    }

    fn sleep_ns(&self, ns: u64) {
        let lockstep = self.shared.lock();
        let until = WaitUntil::Time(lockstep.world.now_ns.saturating_add(ns));
        drop(self.shared.wait(lockstep, until));
    }

    fn pin_current_thread(&self, cpu: CpuId) {
        let mut lockstep = self.shared.lock();
        let index = lockstep.world.layout.cpus.iter().position(|place| place.id == cpu);
        if let Some(index) = index {
            lockstep.pin_current_thread(index);
        }
    }

    fn yield_to_waking_threads(&self) {}

    fn renice_current_thread(&self, _nice: i8) -> Option<i8> {
        None
    }

    fn open_process(&self, pid: Pid) -> Result<Arc<dyn Process>> {
        let lockstep = self.shared.lock();
        let world = &lockstep.world;
        let space = world.space_of(pid).ok_or(Error::Gone(pid))?;
        let lockstep = Arc::clone(&self.shared);
        let target = ProcessMemory { space, page_bytes: self.page_bytes };
        Ok(Arc::new(SimProcess { shared: lockstep, pid, memory: target }))
    }

    fn watch(&self, wanted: &ProcessFilter) -> Result<Box<dyn ProcessWatch>> {
        Ok(Box::new(SimWatch::new(Arc::clone(&self.shared), wanted)?))
    }

    fn other_balancers(&self) -> Result<Vec<OtherBalancer>> {
        let is_on = self.shared.lock().world.numa_balancing.is_some();
        Ok(is_on.then_some(OtherBalancer::Kernel { mode: 1 }).into_iter().collect())
    }

    fn access_sources(&self) -> Vec<AccessSourceStatus> {
        access_source::statuses(&self.shared.lock().world)
    }

    fn open_access_source(&self, kind: AccessSourceKind) -> Result<Box<dyn AccessSource>> {
        Ok(Box::new(SimAccessSource::open(&self.shared, kind)?))
    }

    fn open_thread_records(&self) -> Result<Box<dyn ThreadRecords>> {
        Ok(Box::new(SimThreadRecords::open(&self.shared)))
    }

    /// Returns the CPU time of looks, moves and work, in nanoseconds.
    fn own_cpu_time_ns(&self) -> u64 {
        self.shared.lock().own_cpu_time_ns
    }
}
