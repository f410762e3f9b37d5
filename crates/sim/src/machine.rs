//! A world as a machine that nodeward can work on, like the running kernel.
//!
//! An operation that takes time (a move, a wait) advances the world by that time, and with it all
//! that runs there. Reading where pages are costs no time; reading processes does. The caller is
//! root, and frame numbers are hidden.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodeward_machine::{Capabilities, Error, Machine, Process, Result, Watch};
use nodeward_model::{
    Access, Accessor, CpuId, Cpumask, NodeId, Pid, Rival, Room, Topology, Wanted,
};
use nodeward_scenario::Scenario;

use crate::call::Target;
use crate::course::Course;
use crate::memory::{PageAccesses, Zone};
use crate::process::SimProcess;
use crate::report::Report;
use crate::shift::{SharedStage, Until};
use crate::space::{Region, Space};
use crate::topology;
use crate::watching::SimWatch;
use crate::world::World;

/// Interval at which population of memory is checked, in virtual nanoseconds.
const LOOK_NS: u64 = 1_000_000;

/// A simulated machine with its workloads.
#[derive(Clone)]
pub struct SimMachine {
    pub(crate) stage: Arc<SharedStage>,
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
        Self::of(World::new(scenario, seed))
    }

    /// Wraps a world as a machine.
    pub fn of(world: World) -> Self {
        let page_bytes = world.machine.params.page_bytes;
        Self { stage: Arc::new(SharedStage::new(world)), page_bytes }
    }

    /// Runs it until a time, in virtual nanoseconds.
    pub fn run_until(&self, at_ns: u64) {
        self.stage.lock().world.run_until(at_ns);
    }

    /// Runs it until every process has all its pages in memory, or until the virtual time
    /// `most_ns`.
    pub fn run_until_populated(&self, most_ns: u64) {
        let mut stage = self.stage.lock();
        let world = &mut stage.world;
        while world.now_ns < most_ns && !is_populated(world) {
            world.run_until((world.now_ns + LOOK_NS).min(most_ns));
        }
    }

    /// Returns the processes that run, by pid.
    pub fn processes(&self) -> Vec<ProcessView> {
        let stage = self.stage.lock();
        let world = &stage.world;
        let running = (0..world.spaces.len()).filter(|&space| !world.spaces[space].ended);
        let mut views: Vec<_> = running.map(|space| view(world, &world.spaces[space])).collect();
        views.sort_by_key(|process| process.pid);
        views
    }

    /// Returns local and remote accesses and moved pages over time, at the scenario's `sample`
    /// interval.
    pub fn course(&self) -> Course {
        let stage = self.stage.lock();
        let mut points = stage.world.watch.series.points().to_vec();
        points.push(stage.world.point());
        Course::of(points)
    }

    /// Returns the work of all processes of a workload so far, including those that ended: lines,
    /// pages, messages or lives.
    pub fn work_of(&self, workload: &str) -> u64 {
        self.stage.lock().world.counters.done.get(workload).copied().unwrap_or(0)
    }

    /// Returns the report of the run so far.
    pub fn report(&self) -> Report {
        self.stage.lock().world.report()
    }

    /// Returns a hash of everything that has happened.
    pub fn trace_hash(&self) -> u64 {
        self.stage.lock().world.trace_hash()
    }
}

fn is_populated(world: &World) -> bool {
    let nodes = world.machine.nodes.len();
    let whole = |space: &Space| {
        let pages: u64 = space.regions.iter().map(|region: &Region| region.pages).sum();
        space.count_all(nodes)[..nodes].iter().sum::<u64>() == pages
    };
    let is_meant = |&space: &usize| !world.spaces[space].ended && !world.is_child(space);
    (0..world.spaces.len()).filter(is_meant).all(|space| whole(&world.spaces[space]))
}

fn view(world: &World, space: &Space) -> ProcessView {
    let counts = space.count_all(world.machine.nodes.len());
    let pages = world.layout.node_ids.iter().copied().zip(counts);
    ProcessView {
        pid: space.pid,
        name: space.name.clone(),
        pages: pages.filter(|&(_, pages)| pages > 0).collect(),
        done: space.done,
    }
}

impl Machine for SimMachine {
    fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { move_everyones: true, frame_numbers: false, pagemap_scan: true }
    }

    fn topology(&self) -> Result<Topology> {
        Ok(topology::of(&self.stage.lock().world))
    }

    fn rooms(&self) -> Result<BTreeMap<NodeId, Room>> {
        let stage = self.stage.lock();
        let zones = stage.world.memory.zones.iter();
        let free_pages = |zone: &Zone| if zone.off { 0 } else { zone.free_pages };
        let room = |zone| Room { free_pages: free_pages(zone), cold_pages: 0 };
        let ids = stage.world.layout.node_ids.iter().copied();
        Ok(ids.zip(zones.map(room)).collect())
    }

    fn frames_end(&self) -> Option<u64> {
        None
    }

    fn usable_cpus(&self) -> Result<Cpumask> {
        Ok(self.stage.lock().world.cpus_on())
    }

    fn now_ns(&self) -> u64 {
        self.stage.lock().world.now_ns
    }

    fn sleep_ns(&self, ns: u64) {
        let stage = self.stage.lock();
        let until = Until::Time(stage.world.now_ns.saturating_add(ns));
        drop(self.stage.wait(stage, until));
    }

    fn stay_on(&self, cpu: CpuId) {
        let mut stage = self.stage.lock();
        let index = stage.world.layout.cpus.iter().position(|place| place.id == cpu);
        if let Some(index) = index {
            stage.stay_on(index);
        }
    }

    fn give_way(&self) {}

    fn begin_shift(&self, number: u32, of: u32) {
        self.stage.begin(number, of);
    }

    fn end_shift(&self) {
        self.stage.end();
    }

    fn hold(&self, pid: Pid) -> Result<Arc<dyn Process>> {
        let stage = self.stage.lock();
        let world = &stage.world;
        let is_it = |&space: &usize| world.spaces[space].pid == pid && !world.spaces[space].ended;
        let space = (0..world.spaces.len()).find(is_it).ok_or(Error::Gone(pid))?;
        let stage = Arc::clone(&self.stage);
        let target = Target { space, page_bytes: self.page_bytes };
        Ok(Arc::new(SimProcess { stage, pid, target }))
    }

    fn watch(&self, wanted: &Wanted) -> Result<Box<dyn Watch>> {
        Ok(Box::new(SimWatch::new(Arc::clone(&self.stage), wanted)?))
    }

    fn rivals(&self) -> Result<Vec<Rival>> {
        let is_on = self.stage.lock().world.numa.is_some();
        Ok(is_on.then_some(Rival::Kernel { mode: 1 }).into_iter().collect())
    }

    fn take_accesses(&self) -> Option<Vec<(Pid, Access)>> {
        let mut stage = self.stage.lock();
        let world = &mut stage.world;
        let nodes = 0..world.machine.nodes.len();
        let seen = nodes.flat_map(|node| world.take_accesses(node)).map(|seen: PageAccesses| {
            let by = Accessor::Node(seen.from);
            (seen.pid, Access { address: seen.address, by, count: seen.lines })
        });
        let seen = seen.collect();
        (world.machine.params.counter_entries > 0).then_some(seen)
    }

    /// Returns the CPU time of looks, moves and work, in nanoseconds.
    fn own_cpu_time_ns(&self) -> u64 {
        self.stage.lock().own_ns
    }
}
