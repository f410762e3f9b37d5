//! A simulated machine with checkers that run after each call that moved pages.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nodeward_engine::Live;
use nodeward_machine::{
    Capabilities, Life, Machine, MoveBatch, MoveOutcome, Process, Result, SEPARATOR, Watch,
};
use nodeward_model::{
    Access, Bound, CpuId, Cpumask, Identity, Mapping, NodeId, Page, Pid, Place, Placed, Range,
    Rival, Room, Topology, Wanted,
};
use nodeward_sim::{SimMachine, World};

use crate::check::budgets::{self, Call};
use crate::check::clock::Clock;
use crate::check::{Checker, Finding, Verdict, ensure, pages};

/// State of the checkers of a machine.
struct Seen {
    clock: Clock,
    /// Reported folio sizes, by process and first page.
    told: BTreeMap<(Pid, u64), u64>,
    calls: Vec<Call>,
    /// Lines that access counters reported.
    counted_lines: u64,
    /// Moved pages at the last check.
    migrated: u64,
    finding: Option<Finding>,
}

/// Moves are stopped after the event limit; this factor times the limit ends all waits.
const ENDLESS: u64 = 4;
/// A call that has then not ended for this time, in nanoseconds, without any page moved, never
/// ends.
const ENDLESS_NS: u64 = 1_000_000_000;

/// A machine under observation.
#[derive(Clone)]
pub struct Watched {
    /// The machine.
    pub sim: SimMachine,
    seen: Arc<Mutex<Seen>>,
    /// Stops a move after a finding.
    live: Arc<Live>,
    events_max: u64,
}

impl Watched {
    /// Wraps a world at its beginning. Moves are stopped after `events_max` events.
    pub fn new(world: World, events_max: u64) -> Self {
        let scenario = world.scenario();
        let cpus = scenario.machine.cpus().len() as u64;
        let tasks = scenario.workloads.iter().map(|workload| workload.tasks()).sum();
        let seen = Seen {
            clock: Clock::new(cpus, tasks),
            told: BTreeMap::new(),
            calls: Vec::new(),
            counted_lines: 0,
            migrated: 0,
            finding: None,
        };
        let seen = Arc::new(Mutex::new(seen));
        let sim = SimMachine::of(world);
        sim.limit_events(events_max.saturating_mul(ENDLESS));
        Self { sim, seen, live: Arc::default(), events_max }
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs all checkers that need no more than the machine. The first finding is kept.
    ///
    /// # Errors
    /// That finding.
    pub fn look(&self) -> std::result::Result<(), Finding> {
        let mut seen = self.seen();
        let verdict = self.sim.look(|world| {
            let (now_ns, counters) = (world.now_ns(), &world.counters);
            if counters.events > self.events_max {
                self.live.stop();
            }
            let waited_ns = now_ns.saturating_sub(seen.clock.now_ns());
            let is_late = counters.events >= self.events_max.saturating_mul(ENDLESS)
                && waited_ns > ENDLESS_NS
                && counters.migrated_pages == seen.migrated;
            seen.migrated = counters.migrated_pages;
            let endless = || format!("a move has not ended after {waited_ns} ns");
            ensure(!is_late, Checker::Time, endless)?;
            seen.clock.look(now_ns, counters.events, world.busy_ns())?;
            pages::census(&world.census())?;
            budgets::lists(&world.lists())
        });
        self.note(&mut seen, verdict)
    }

    /// Adds lines that access counters reported.
    ///
    /// # Errors
    /// If they exceed the cache misses so far.
    pub fn count_lines(&self, lines: u64) -> std::result::Result<(), Finding> {
        let mut seen = self.seen();
        seen.counted_lines += lines;
        let told = seen.counted_lines;
        let missed =
            self.sim.look(|world| world.counters.local_lines + world.counters.remote_lines);
        let more = || format!("access counters told of {told} lines, and {missed} were missed");
        self.note(&mut seen, ensure(told <= missed, Checker::Account, more))
    }

    /// Records the result of a check.
    ///
    /// # Errors
    /// The first finding of all.
    pub fn judge(&self, verdict: Verdict) -> std::result::Result<(), Finding> {
        self.note(&mut self.seen(), verdict)
    }

    fn note(&self, seen: &mut Seen, verdict: Verdict) -> std::result::Result<(), Finding> {
        if let Err((checker, what)) = verdict {
            self.live.stop();
            let at_ns = self.sim.now_ns();
            seen.finding.get_or_insert(Finding { checker, at_ns, what });
        }
        seen.finding.clone().map_or(Ok(()), Err)
    }

    /// Returns the handle for moves, through which a finding stops them.
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// Returns whether the event limit was exceeded.
    pub fn is_over(&self) -> bool {
        self.live.is_stopped()
    }

    /// Returns the calls since the last call of this function, in order of start.
    pub fn take_calls(&self) -> Vec<Call> {
        let mut calls = std::mem::take(&mut self.seen().calls);
        calls.sort_by_key(|call| call.began_ns);
        calls
    }

    /// Describes a batch: its pages, and its longest run of base pages. A program that unmaps and
    /// touches its memory again may have folios of other sizes there at any time, and reported
    /// folios may be split in a move. No mover can keep a budget by sizes that it cannot know: the
    /// sizes last reported and the present ones bound what it knows.
    fn call(&self, pid: Pid, batch: &MoveBatch) -> Call {
        let (began_ns, seen) = (self.sim.now_ns(), self.seen());
        let sizes: Vec<_> = self.sim.look(|world| {
            let size = |&address: &u64| {
                let told = seen.told.get(&(pid, address)).copied().unwrap_or(1);
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
        Call { began_ns, took_ns: 0, pages, pages_most, run_pages }
    }
}

impl Machine for Watched {
    fn page_bytes(&self) -> u64 {
        self.sim.page_bytes()
    }

    fn capabilities(&self) -> Capabilities {
        self.sim.capabilities()
    }

    fn topology(&self) -> Result<Topology> {
        self.sim.topology()
    }

    fn rooms(&self) -> Result<BTreeMap<NodeId, Room>> {
        self.sim.rooms()
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

    fn stay_on(&self, cpu: CpuId) {
        self.sim.stay_on(cpu);
    }

    fn give_way(&self) {
        self.sim.give_way();
    }

    fn take_accesses(&self) -> Option<Vec<(Pid, Access)>> {
        self.sim.take_accesses()
    }

    fn begin_shift(&self, number: u32, of: u32) {
        self.sim.begin_shift(number, of);
    }

    fn end_shift(&self) {
        self.sim.end_shift();
    }

    fn hold(&self, pid: Pid) -> Result<Arc<dyn Process>> {
        let inner = self.sim.hold(pid)?;
        Ok(Arc::new(WatchedProcess { inner, machine: self.clone() }))
    }

    fn watch(&self, wanted: &Wanted) -> Result<Box<dyn Watch>> {
        self.sim.watch(wanted)
    }

    fn rivals(&self) -> Result<Vec<Rival>> {
        self.sim.rivals()
    }

    fn own_cpu_time_ns(&self) -> u64 {
        self.sim.own_cpu_time_ns()
    }
}

/// A process of an observed machine.
struct WatchedProcess {
    inner: Arc<dyn Process>,
    machine: Watched,
}

impl Process for WatchedProcess {
    fn pid(&self) -> Pid {
        self.inner.pid()
    }

    fn identity(&self) -> Result<Identity> {
        self.inner.identity()
    }

    fn life(&self) -> Life {
        self.inner.life()
    }

    fn mappings(&self) -> Result<Vec<Mapping>> {
        self.inner.mappings()
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
        self.machine.seen().told.extend(folios.map(size));
        Ok(())
    }

    fn places(&self, range: Range, into: &mut Vec<Place>) -> Result<()> {
        self.inner.places(range, into)
    }

    fn frames(&self, range: Range, into: &mut Vec<Option<u64>>) -> Result<()> {
        self.inner.frames(range, into)
    }

    fn locate(&self, addresses: &[u64]) -> Result<Vec<Place>> {
        self.inner.locate(addresses)
    }

    fn move_pages(&self, batch: &MoveBatch) -> Result<MoveOutcome> {
        let mut call = self.machine.call(self.pid(), batch);
        let outcome = self.inner.move_pages(batch);
        call.took_ns = self.machine.now_ns() - call.began_ns;
        self.machine.seen().calls.push(call);
        // A finding is reported when the move has ended, which is soon.
        self.machine.look().unwrap_or_default();
        outcome
    }

    fn bound(&self) -> Result<Bound> {
        self.inner.bound()
    }

    fn nudge(&self, tid: u32, cpus: &Cpumask) -> Result<Placed> {
        self.inner.nudge(tid, cpus)
    }

    fn pin(&self, tid: u32, cpus: &Cpumask) -> Result<Placed> {
        self.inner.pin(tid, cpus)
    }
}
