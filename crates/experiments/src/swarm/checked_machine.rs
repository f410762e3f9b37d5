//! A simulated machine with checkers that run after each call that moved pages.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nodeward_machine::{
    AccessSource, AccessSourceKind, AccessSourceStatus, Capabilities, Liveness, Machine,
    MovePagesCall, MovePagesOutcome, Process, ProcessWatch, Result, SEPARATOR, ThreadRecords,
    WorkerRegistry,
};
use nodeward_model::{
    AffinityOutcome, CpuId, Cpumask, Mapping, MemoryPolicies, NodeHeadroom, NodeId, NumaActivity,
    OtherBalancer, Page, PageLocation, Pid, ProcessFilter, ProcessIdentity, ProcessTraits, Range,
    Topology,
};
use nodeward_mover::MoveControl;
use nodeward_sim::{SimMachine, World};

use crate::swarm::check::budgets::{self, ObservedCall};
use crate::swarm::check::clock::ClockCheck;
use crate::swarm::check::{CheckFinding, Checker, CheckerResult, ensure, pages};

/// Moves are stopped after the event limit; this factor times the limit ends all waits.
const HANG_FACTOR: u64 = 4;
/// A call that has then not ended for this time, in nanoseconds, without any page moved, never
/// ends.
const HANG_NS: u64 = 1_000_000_000;

/// A machine under observation.
#[derive(Clone)]
pub struct CheckedMachine {
    /// The machine.
    pub sim: SimMachine,
    state: Arc<Mutex<CheckerState>>,
    /// Stops a move after a finding.
    live: Arc<MoveControl>,
    events_max: u64,
}

impl CheckedMachine {
    /// Wraps a world at its beginning. Moves are stopped after `events_max` events.
    pub fn new(world: World, events_max: u64) -> Self {
        let scenario = world.scenario();
        let cpus = scenario.machine.cpus().len() as u64;
        let tasks = scenario.workloads.iter().map(|workload| workload.tasks()).sum();
        let seen = CheckerState {
            clock: ClockCheck::new(cpus, tasks),
            reported_folio_pages: BTreeMap::new(),
            calls: Vec::new(),
            destinations: BTreeMap::new(),
            counted_lines: 0,
            migrated: 0,
            finding: None,
        };
        let seen = Arc::new(Mutex::new(seen));
        let sim = SimMachine::from_world(world);
        sim.limit_events(events_max.saturating_mul(HANG_FACTOR));
        Self { sim, state: seen, live: Arc::default(), events_max }
    }

    fn lock_state(&self) -> MutexGuard<'_, CheckerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs all checkers that need no more than the machine. The first finding is kept.
    ///
    /// # Errors
    /// That finding.
    pub fn check(&self) -> std::result::Result<(), CheckFinding> {
        let mut seen = self.lock_state();
        let verdict = self.sim.inspect(|world| {
            let (now_ns, counters) = (world.now_ns(), &world.counters);
            if counters.events > self.events_max {
                self.live.stop();
            }
            let waited_ns = now_ns.saturating_sub(seen.clock.now_ns());
            let is_late = counters.events >= self.events_max.saturating_mul(HANG_FACTOR)
                && waited_ns > HANG_NS
                && counters.migrated_pages == seen.migrated;
            seen.migrated = counters.migrated_pages;
            let endless = || format!("a move has not ended after {waited_ns} ns");
            ensure(!is_late, Checker::Time, endless)?;
            seen.clock.check(now_ns, counters.events, world.busy_ns())?;
            pages::check_census(&world.census())?;
            budgets::check_list_bounds(&world.lists())
        });
        self.record(&mut seen, verdict)
    }

    /// Adds lines that access counters reported.
    ///
    /// # Errors
    /// If they exceed the cache misses so far.
    pub fn check_counted_lines(&self, lines: u64) -> std::result::Result<(), CheckFinding> {
        let mut seen = self.lock_state();
        seen.counted_lines += lines;
        let told = seen.counted_lines;
        let missed =
            self.sim.inspect(|world| world.counters.local_lines + world.counters.remote_lines);
        let more = || format!("access counters told of {told} lines, and {missed} were missed");
        self.record(&mut seen, ensure(told <= missed, Checker::Account, more))
    }

    /// Records the result of a check.
    ///
    /// # Errors
    /// The first finding of all.
    pub fn record_result(&self, verdict: CheckerResult) -> std::result::Result<(), CheckFinding> {
        self.record(&mut self.lock_state(), verdict)
    }

    /// Records a failure; returns the value if there was none, now or before.
    ///
    /// # Errors
    /// The first finding of all.
    pub fn judge<T>(
        &self,
        result: std::result::Result<T, (Checker, String)>,
    ) -> std::result::Result<T, CheckFinding> {
        let (verdict, value) = match result {
            Ok(value) => (Ok(()), Some(value)),
            Err(failure) => (Err(failure), None),
        };
        self.record_result(verdict)?;
        Ok(value.expect("a failure is a finding"))
    }

    fn record(
        &self,
        seen: &mut CheckerState,
        verdict: CheckerResult,
    ) -> std::result::Result<(), CheckFinding> {
        if let Err((checker, what)) = verdict {
            self.live.stop();
            let at_ns = self.sim.now_ns();
            seen.finding.get_or_insert(CheckFinding { checker, at_ns, problem: what });
        }
        seen.finding.clone().map_or(Ok(()), Err)
    }

    /// Returns the handle for moves, through which a finding stops them.
    pub fn live(&self) -> &MoveControl {
        &self.live
    }

    /// Returns whether the event limit was exceeded.
    pub fn is_over(&self) -> bool {
        self.live.is_stopped()
    }

    /// Returns the calls since the last call of this function, in order of start.
    pub fn take_calls(&self) -> Vec<ObservedCall> {
        let mut calls = std::mem::take(&mut self.lock_state().calls);
        calls.sort_by_key(|call| call.began_ns);
        calls
    }

    /// Returns the nodes to which own memory of processes was sent since the last call of this
    /// function.
    pub fn take_destinations(&self) -> BTreeMap<Pid, BTreeSet<NodeId>> {
        std::mem::take(&mut self.lock_state().destinations)
    }

    /// Notes where a call sends own memory of a process.
    fn observe_destinations(&self, pid: Pid, batch: &MovePagesCall) {
        let pages = batch.addresses().iter().zip(batch.nodes());
        let own: BTreeSet<NodeId> = self.sim.inspect(|world| {
            let is_own =
                |address: u64| address != SEPARATOR && world.page_at(pid, address).is_some();
            pages.filter(|&(&address, _)| is_own(address)).map(|(_, &node)| node).collect()
        });
        self.lock_state().destinations.entry(pid).or_default().extend(own);
    }

    /// Describes a batch: its pages, and its longest run of base pages. A program that unmaps and
    /// touches its memory again may have folios of other sizes there at any time, and reported
    /// folios may be split in a move. No mover can keep a budget by sizes that it cannot know: the
    /// sizes last reported and the present ones bound what it knows.
    fn observe_call(&self, pid: Pid, batch: &MovePagesCall) -> ObservedCall {
        let (began_ns, seen) = (self.sim.now_ns(), self.lock_state());
        let sizes: Vec<_> = self.sim.inspect(|world| {
            let size = |&address: &u64| {
                let told = seen.reported_folio_pages.get(&(pid, address)).copied().unwrap_or(1);
                let now = world.page_at(pid, address).map_or(1, |page| page.folio_pages);
                (address != SEPARATOR).then_some((told.min(now), told.max(now)))
            };
            batch.addresses().iter().map(size).collect()
        });
        let runs = sizes.split(|size| size.is_none());
        let run_pages =
            runs.map(|run| run.iter().flatten().filter(|&&(_, most)| most == 1).count());
        let run_pages = run_pages.max().unwrap_or(0) as u64;
        let pages = sizes.iter().flatten().map(|(least, _)| least).sum();
        let pages_most = sizes.iter().flatten().map(|(_, most)| most).sum();
        ObservedCall {
            began_ns,
            took_ns: 0,
            pages_min: pages,
            pages_max: pages_most,
            longest_run_pages: run_pages,
        }
    }
}

impl WorkerRegistry for CheckedMachine {
    fn register_worker(&self, number: u32, of: u32) {
        self.sim.register_worker(number, of);
    }

    fn unregister_worker(&self) {
        self.sim.unregister_worker();
    }
}

impl Machine for CheckedMachine {
    fn page_bytes(&self) -> u64 {
        self.sim.page_bytes()
    }

    fn capabilities(&self) -> Capabilities {
        self.sim.capabilities()
    }

    fn topology(&self) -> Result<Topology> {
        self.sim.topology()
    }

    fn headroom(&self) -> Result<BTreeMap<NodeId, NodeHeadroom>> {
        self.sim.headroom()
    }

    fn frames_end(&self) -> Option<u64> {
        self.sim.frames_end()
    }

    fn usable_cpus(&self) -> Result<Cpumask> {
        self.sim.usable_cpus()
    }

    fn now_ns(&self) -> u64 {
        self.sim.now_ns()
    }

    fn sleep_ns(&self, ns: u64) {
        self.sim.sleep_ns(ns);
    }

    fn pin_current_thread(&self, cpu: CpuId) {
        self.sim.pin_current_thread(cpu);
    }

    fn yield_to_waking_threads(&self) {
        self.sim.yield_to_waking_threads();
    }

    fn renice_current_thread(&self, nice: i8) -> Option<i8> {
        self.sim.renice_current_thread(nice)
    }

    fn access_sources(&self) -> Vec<AccessSourceStatus> {
        self.sim.access_sources()
    }

    fn open_access_source(&self, kind: AccessSourceKind) -> Result<Box<dyn AccessSource>> {
        self.sim.open_access_source(kind)
    }

    fn open_thread_records(&self) -> Result<Box<dyn ThreadRecords>> {
        self.sim.open_thread_records()
    }

    fn open_process(&self, pid: Pid) -> Result<Arc<dyn Process>> {
        let inner = self.sim.open_process(pid)?;
        Ok(Arc::new(CheckedProcess { inner, machine: self.clone() }))
    }

    fn watch(&self, wanted: &ProcessFilter) -> Result<Box<dyn ProcessWatch>> {
        self.sim.watch(wanted)
    }

    fn other_balancers(&self) -> Result<Vec<OtherBalancer>> {
        self.sim.other_balancers()
    }

    fn own_cpu_time_ns(&self) -> u64 {
        self.sim.own_cpu_time_ns()
    }
}

/// State of the checkers of a machine.
struct CheckerState {
    clock: ClockCheck,
    /// Reported folio sizes, by process and first page.
    reported_folio_pages: BTreeMap<(Pid, u64), u64>,
    calls: Vec<ObservedCall>,
    /// The nodes to which own memory of processes was sent.
    destinations: BTreeMap<Pid, BTreeSet<NodeId>>,
    /// Lines that access counters reported.
    counted_lines: u64,
    /// Moved pages at the last check.
    migrated: u64,
    finding: Option<CheckFinding>,
}

/// A process of an observed machine.
struct CheckedProcess {
    inner: Arc<dyn Process>,
    machine: CheckedMachine,
}

impl Process for CheckedProcess {
    fn pid(&self) -> Pid {
        self.inner.pid()
    }

    fn identity(&self) -> Result<ProcessIdentity> {
        self.inner.identity()
    }

    fn liveness(&self) -> Liveness {
        self.inner.liveness()
    }

    fn mappings(&self) -> Result<Vec<Mapping>> {
        self.inner.mappings()
    }

    fn traits(&self) -> Result<ProcessTraits> {
        self.inner.traits()
    }

    fn resident_bytes(&self) -> Result<u64> {
        self.inner.resident_bytes()
    }

    fn populated(&self, range: Range) -> Result<Vec<Range>> {
        self.inner.populated(range)
    }

    fn pages(&self, mapping: &Mapping, range: Range, into: &mut Vec<Page>) -> Result<()> {
        let first = into.len();
        self.inner.pages(mapping, range, into)?;
        let page_bytes = self.machine.page_bytes();
        let pages = (range.start..).step_by(page_bytes as usize).zip(&into[first..]);
        let folios = pages.filter(|(_, page)| page.folio_pages > 0);
        let size = |(address, page): (u64, &Page)| ((self.pid(), address), page.folio_pages.into());
        self.machine.lock_state().reported_folio_pages.extend(folios.map(size));
        Ok(())
    }

    fn locations(&self, range: Range, into: &mut Vec<PageLocation>) -> Result<()> {
        self.inner.locations(range, into)
    }

    fn frames(&self, range: Range, into: &mut Vec<Option<u64>>) -> Result<()> {
        self.inner.frames(range, into)
    }

    fn locate(&self, addresses: &[u64]) -> Result<Vec<PageLocation>> {
        self.inner.locate(addresses)
    }

    fn move_pages(&self, batch: &MovePagesCall) -> Result<MovePagesOutcome> {
        let mut call = self.machine.observe_call(self.pid(), batch);
        self.machine.observe_destinations(self.pid(), batch);
        let outcome = self.inner.move_pages(batch);
        call.took_ns = self.machine.now_ns() - call.began_ns;
        self.machine.lock_state().calls.push(call);
        // A finding is reported when the move has ended, which is soon.
        self.machine.check().unwrap_or_default();
        outcome
    }

    fn memory_policies(&self) -> Result<MemoryPolicies> {
        self.inner.memory_policies()
    }

    fn nudge(&self, tid: u32, cpus: &Cpumask) -> Result<AffinityOutcome> {
        self.inner.nudge(tid, cpus)
    }

    fn pin(&self, tid: u32, cpus: &Cpumask) -> Result<AffinityOutcome> {
        self.inner.pin(tid, cpus)
    }

    fn numa_activity(&self, tid: u32) -> Result<Option<NumaActivity>> {
        self.inner.numa_activity(tid)
    }
}
