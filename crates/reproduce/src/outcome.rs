//! What came of a run.

use std::collections::BTreeMap;

use nodeward_sim::{MoveReport, Report};

/// A report, and numbers that only the driver of the run knows.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How the simulated machine did.
    pub report: Report,
    /// What else was counted, by name.
    pub numbers: BTreeMap<&'static str, f64>,
}

impl Outcome {
    /// Of a report alone.
    pub fn of(report: Report) -> Self {
        Self { report, numbers: BTreeMap::new() }
    }

    /// With one more number.
    #[must_use]
    pub fn with(mut self, name: &'static str, number: f64) -> Self {
        self.numbers.insert(name, number);
        self
    }

    /// A number by its name.
    ///
    /// # Panics
    ///
    /// If the driver did not give it: a mistake of the table.
    pub fn number(&self, name: &str) -> f64 {
        *self.numbers.get(name).unwrap_or_else(|| panic!("the run has no number {name}"))
    }

    /// What hardware and kernel would count; 0 for what did not happen.
    pub fn counter(&self, name: &str) -> f64 {
        self.report.counters.get(name).copied().unwrap_or(0) as f64
    }

    /// The part of all CPU time that was not idle, beside what `of` names, that went there.
    pub fn time_share(&self, of: &str) -> f64 {
        let all: u64 = self.report.time_ns.values().sum();
        let part = self.report.time_ns.get(of).copied().unwrap_or(0);
        part as f64 / all.max(1) as f64
    }

    /// How often a workload did what it does, in a second.
    pub fn per_s(&self, workload: &str) -> f64 {
        let mut all = self.report.workloads.iter();
        all.find(|other| other.name == workload).map_or(0.0, |found| found.done_per_s as f64)
    }

    /// The moves of an action, by its place in the scenario.
    pub fn moves(&self, action: usize) -> impl Iterator<Item = &MoveReport> {
        self.report.moves.iter().filter(move |moved| moved.action == action)
    }

    /// How long the first move of an action took, in milliseconds; what never ended took for ever.
    pub fn move_ms(&self, action: usize) -> f64 {
        let first = self.moves(action).next();
        let ended = first.and_then(|first| Some(first.ended_ns? - first.began_ns));
        ended.map_or(f64::INFINITY, |ns| ns as f64 / 1e6)
    }
}
