//! The result of a run.

use std::collections::BTreeMap;

use nodeward_sim::{ActionMoveReport, SimReport};

/// A report, and numbers that only the driver of the run knows.
#[derive(Clone, Debug)]
pub struct RunOutcome {
    /// The report of the simulated machine.
    pub report: SimReport,
    /// Further numbers, by name.
    pub driver_numbers: BTreeMap<&'static str, f64>,
}

impl RunOutcome {
    /// Creates an outcome from a report alone.
    pub fn of(report: SimReport) -> Self {
        Self { report, driver_numbers: BTreeMap::new() }
    }

    /// Adds a number.
    #[must_use]
    pub fn with(mut self, name: &'static str, number: f64) -> Self {
        self.driver_numbers.insert(name, number);
        self
    }

    /// Returns a number by its name.
    ///
    /// # Panics
    ///
    /// If the driver did not provide it: a mistake of the table.
    pub fn number(&self, name: &str) -> f64 {
        *self.driver_numbers.get(name).unwrap_or_else(|| panic!("the run has no number {name}"))
    }

    /// Returns a counter of hardware or kernel; 0 for events that did not happen.
    pub fn counter(&self, name: &str) -> f64 {
        self.report.counters.get(name).copied().unwrap_or(0) as f64
    }

    /// Returns the share of busy CPU time spent on `of`.
    pub fn time_share(&self, of: &str) -> f64 {
        let all: u64 = self.report.time_ns.values().sum();
        let part = self.report.time_ns.get(of).copied().unwrap_or(0);
        part as f64 / all.max(1) as f64
    }

    /// Returns the work of a workload per second.
    pub fn per_s(&self, workload: &str) -> f64 {
        let mut all = self.report.workloads.iter();
        all.find(|other| other.name == workload).map_or(0.0, |found| found.done_per_s as f64)
    }

    /// Returns the moves of an action, by its place in the scenario.
    pub fn moves(&self, action: usize) -> impl Iterator<Item = &ActionMoveReport> {
        self.report.moves.iter().filter(move |moved| moved.action == action)
    }

    /// Returns the time of the first move of an action, in milliseconds; infinity if it never
    /// ended.
    pub fn move_ms(&self, action: usize) -> f64 {
        let first = self.moves(action).next();
        let ended = first.and_then(|first| Some(first.ended_ns? - first.began_ns));
        ended.map_or(f64::INFINITY, |ns| ns as f64 / 1e6)
    }
}
