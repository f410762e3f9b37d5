//! Rounds of write faults: a source tells which thread writes which page of a process whose sampled
//! time found no ranges (`policy::hot::written_pages`).
//!
//! Each round costs the process a fault for each page that it writes. So one process is asked at a
//! time, for three rounds at most, and more and more rarely if that was in vain.

use std::collections::BTreeMap;

use nodeward_machine::{AccessBatch, AccessSampling, AccessSource, AccessSourceKind, Machine};
use nodeward_model::Pid;
use nodeward_policy::damping::Retry;
use nodeward_policy::hot::PageWriters;
use nodeward_policy::placement::EntityId;

/// The source of write faults.
const SOURCE: AccessSourceKind = AccessSourceKind::SoftDirty;
/// Rounds of a process in a row. What three do not tell, more do not either.
const ROUNDS_MAX: u64 = 3;
/// The length of a round, in nanoseconds: that of the source.
const ROUND_NS: u64 = 1_000_000_000;
/// Time after the rounds of a process in which it is not asked again, in nanoseconds: if pages were
/// moved for them, and else at first and at most; it doubles each time.
const WAIT_NS: u64 = 64_000_000_000;
const WAITS_IN_VAIN_NS: [u64; 2] = [8_000_000_000, 3_600_000_000_000];

/// The rounds of the process that is asked, and the waits of the others.
#[derive(Default)]
pub struct WriteRounds {
    /// The source stays open while it observes nobody, because it knows which bits it cleared
    /// itself.
    source: Option<Box<dyn AccessSource>>,
    present: Option<ProcessRounds>,
    waits: BTreeMap<EntityId, Retry>,
}

/// The rounds of a process.
pub struct ProcessRounds {
    entity: EntityId,
    pub writers: PageWriters,
    round_ends_ns: u64,
    rounds: u64,
    /// True if pages were moved for a round.
    has_moved: bool,
}

impl WriteRounds {
    /// Ends the rounds of a process that is not wanted any more, and forgets such processes.
    pub fn keep(&mut self, is_wanted: impl Fn(EntityId) -> bool) {
        self.waits.retain(|&entity, _| is_wanted(entity));
        if self.present.as_ref().is_some_and(|rounds| !is_wanted(rounds.entity)) {
            self.stop();
        }
    }

    /// Returns whether a process may be asked now.
    pub fn may_begin(&self, entity: EntityId, at_ns: u64) -> bool {
        let is_over = self.waits.get(&entity).is_none_or(|wait| wait.is_over(at_ns));
        self.present.is_none() && is_over
    }

    /// Begins the rounds of a process, if the machine has a source that observes it.
    pub fn begin(&mut self, machine: &dyn Machine, entity: EntityId, pid: Pid) {
        let (at_ns, writers) = (machine.now_ns(), PageWriters::default());
        let round_ends_ns = at_ns.saturating_add(ROUND_NS);
        let (rounds, has_moved) = (0, false);
        self.present = Some(ProcessRounds { entity, writers, round_ends_ns, rounds, has_moved });
        if !self.observe(machine, pid) {
            self.end(at_ns);
        }
    }

    /// Takes the faults of the process that is asked.
    pub fn take(&mut self) -> Option<(EntityId, AccessBatch)> {
        let entity = self.present.as_ref()?.entity;
        let batch = self.source.as_mut()?.take();
        let told = batch.inspect_err(|error| tracing::debug!(%error, "write faults ended"));
        Some((entity, told.unwrap_or_default()))
    }

    /// Returns the rounds of the process that is asked.
    pub fn present(&mut self) -> Option<&mut ProcessRounds> {
        self.present.as_mut()
    }

    /// Returns the kind of the source, while it observes a process.
    pub fn kind(&self) -> Option<AccessSourceKind> {
        self.present.as_ref().map(|_| SOURCE)
    }

    /// Returns whether a process is asked.
    pub fn is_asked(&self, entity: EntityId) -> bool {
        self.present.as_ref().is_some_and(|rounds| rounds.entity == entity)
    }

    /// Returns when the round ends; `None` if nobody is asked.
    pub fn round_ends_ns(&self) -> Option<u64> {
        self.present.as_ref().map(|rounds| rounds.round_ends_ns)
    }

    /// Ends the rounds of the process that is asked.
    pub fn end(&mut self, at_ns: u64) {
        if let Some(rounds) = &self.present {
            let wait = self.waits.entry(rounds.entity).or_default();
            match rounds.has_moved {
                true => wait.start(at_ns, false, [WAIT_NS; 2]),
                false => wait.start(at_ns, true, WAITS_IN_VAIN_NS),
            }
        }
        self.stop();
    }

    fn stop(&mut self) {
        self.present = None;
        let stopped = self.source.as_mut().map(|it| it.observe(&AccessSampling::default()));
        if let Some(Err(error)) = stopped {
            tracing::debug!(%error, "write faults could not be stopped");
            self.source = None;
        }
    }

    fn observe(&mut self, machine: &dyn Machine, pid: Pid) -> bool {
        let is_there = |machine: &dyn Machine| {
            machine.access_sources().iter().any(|it| it.kind == SOURCE && it.obstacle.is_none())
        };
        if self.source.is_none() && is_there(machine) {
            self.source = machine.open_access_source(SOURCE).ok();
        }
        let sampling = AccessSampling { pids: vec![pid], rate_hz: 0 };
        let observed = self.source.as_mut().map(|source| source.observe(&sampling));
        if let Some(Err(error)) = &observed {
            tracing::debug!(%error, %pid, "its writes are not observed");
        }
        matches!(observed, Some(Ok(())))
    }
}

impl ProcessRounds {
    /// Ends the round if its time is over. Returns whether the round ended.
    pub fn ends_round(&mut self, at_ns: u64) -> bool {
        let is_over = at_ns >= self.round_ends_ns;
        if is_over {
            self.round_ends_ns = at_ns.saturating_add(ROUND_NS);
            self.writers.end_round();
            self.rounds += 1;
        }
        is_over
    }

    /// Returns whether no further round follows.
    pub fn are_all(&self) -> bool {
        self.rounds >= ROUNDS_MAX
    }

    /// Notes whether pages are moved for the rounds so far. If so, the next round tells of those
    /// that were not written in this one, and need not agree with it.
    pub fn note(&mut self, are_moved: bool) {
        if are_moved {
            self.has_moved = true;
            self.writers = PageWriters::default();
        }
    }
}
