//! Many cases, on all cores.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::swarm::case_run::{CaseResult, run};
use crate::swarm::check::CheckFinding;
use crate::swarm::event_counts::EventCounts;
use crate::swarm::generator::SwarmCase;

/// The results of many cases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwarmSummary {
    /// Number of cases run.
    pub cases: u64,
    /// Findings by seed.
    pub findings: BTreeMap<u64, CheckFinding>,
    /// Coverage counts of all cases.
    pub event_counts: EventCounts,
    /// Number of cases by the rounds that memory took to reach its wanted nodes.
    pub cases_by_rounds: BTreeMap<u64, u64>,
}

impl SwarmSummary {
    fn record(&mut self, seed: u64, ran: Result<CaseResult, CheckFinding>) {
        self.cases += 1;
        match ran {
            Ok(done) => {
                self.event_counts.merge(&done.event_counts);
                if let Some(rounds) = done.rounds {
                    *self.cases_by_rounds.entry(rounds).or_default() += 1;
                }
            }
            Err(finding) => drop(self.findings.insert(seed, finding)),
        }
    }

    /// Returns the most rounds that memory took to reach its wanted nodes.
    pub fn rounds_max(&self) -> u64 {
        self.cases_by_rounds.keys().last().copied().unwrap_or(0)
    }
}

/// A swarm while it runs.
#[derive(Debug)]
pub struct Swarm {
    seeds: Range<u64>,
    next: AtomicU64,
    done: AtomicU64,
    stopped: AtomicBool,
    summary: Mutex<SwarmSummary>,
}

impl Swarm {
    /// Creates a swarm of these seeds.
    pub fn new(seeds: Range<u64>) -> Self {
        let next = AtomicU64::new(seeds.start);
        let (done, stopped) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { seeds, next, done, stopped, summary: Mutex::default() }
    }

    /// Runs all cases on `jobs` threads; `draw` makes the case of a seed.
    pub fn run(&self, jobs: usize, draw: impl Fn(u64) -> SwarmCase + Sync) -> SwarmSummary {
        std::thread::scope(|scope| {
            for _ in 1..jobs {
                scope.spawn(|| self.run_cases(&draw));
            }
            self.run_cases(&draw);
        });
        self.summary().clone()
    }

    fn run_cases(&self, draw: &impl Fn(u64) -> SwarmCase) {
        while !self.stopped.load(Ordering::Relaxed) {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if !self.seeds.contains(&seed) {
                return;
            }
            let ran = run(&draw(seed));
            self.summary().record(seed, ran);
            self.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn summary(&self) -> MutexGuard<'_, SwarmSummary> {
        self.summary.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of completed cases, and of all cases.
    pub fn done_of_total(&self) -> (u64, u64) {
        (self.done.load(Ordering::Relaxed), self.seeds.end.saturating_sub(self.seeds.start))
    }

    /// Returns the number of seeds with findings so far.
    pub fn failed(&self) -> usize {
        self.summary().findings.len()
    }

    /// Stops it after the cases that have begun.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}
