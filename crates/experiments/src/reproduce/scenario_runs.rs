//! Runs all scenarios in parallel.

use std::collections::BTreeMap;

use crate::parallel::{ParallelProgress, parallel_map};
use anyhow::{Context as _, Result, bail};
use nodeward_scenario::Scenario;
use nodeward_sim::World;

use crate::reproduce::figure_table::DocumentTable;
use crate::reproduce::run_outcome::RunOutcome;

/// The seed of all random choices.
pub const SEED: u64 = 1;

/// A run of a scenario.
#[derive(Clone)]
pub struct ScenarioRun {
    /// The name by which rows refer to it; unique in a table.
    pub name: &'static str,
    /// Name of the built-in scenario.
    pub scenario: &'static str,
    /// Values of scenario keys, `key=value`.
    pub overrides: Vec<String>,
    /// The driver; `None` if the scenario runs without one.
    pub driver: Option<fn(&Scenario) -> Result<RunOutcome>>,
}

impl ScenarioRun {
    /// Creates a run without a driver.
    pub fn new(name: &'static str, scenario: &'static str) -> Self {
        Self { name, scenario, overrides: Vec::new(), driver: None }
    }

    /// Sets a scenario key.
    #[must_use]
    pub fn with_override(mut self, key: &str, value: &str) -> Self {
        self.overrides.push(format!("{key}={value}"));
        self
    }

    /// Sets a driver that moves threads and memory during the run.
    #[must_use]
    pub fn driven_by(mut self, driver: fn(&Scenario) -> Result<RunOutcome>) -> Self {
        self.driver = Some(driver);
        self
    }

    /// Returns the command that runs the scenario, without its driver.
    pub fn command(&self) -> String {
        let sets: String = self.overrides.iter().map(|set| format!(" --set {set}")).collect();
        format!("nodeward sim {}{sets}", self.scenario)
    }

    fn simulate(&self) -> Result<RunOutcome> {
        let pair = |set: &String| {
            let (key, value) = set.split_once('=').unwrap_or((set, ""));
            (key.to_owned(), value.to_owned())
        };
        let sets: Vec<_> = self.overrides.iter().map(pair).collect();
        let scenario = Scenario::find_with(self.scenario, &sets)?;
        self.driver.unwrap_or(run_to_end)(&scenario)
    }
}

fn run_to_end(scenario: &Scenario) -> Result<RunOutcome> {
    let mut world = World::new(scenario, SEED);
    world.run_until(scenario.time_ns);
    Ok(RunOutcome::of(world.report()))
}

/// The outcomes of the runs of a table, by name.
#[derive(Default)]
pub struct RunOutcomes(BTreeMap<&'static str, RunOutcome>);

impl RunOutcomes {
    /// Returns the outcome of a run.
    ///
    /// # Panics
    ///
    /// If the table has no such run: a mistake of the table.
    pub fn of(&self, name: &str) -> &RunOutcome {
        self.0.get(name).unwrap_or_else(|| panic!("the table has no run {name}"))
    }
}

/// Runs all runs of all tables, `jobs` at a time. Returns the outcomes table by table.
///
/// # Errors
///
/// If a run fails, or after a stop.
pub fn run_all(
    tables: &[DocumentTable],
    jobs: usize,
    watch: &ParallelProgress,
) -> Result<Vec<RunOutcomes>> {
    let whole = |(index, table): (usize, &DocumentTable)| {
        table.runs.iter().map(move |run| (index, run.clone())).collect::<Vec<_>>()
    };
    let queue: Vec<_> = tables.iter().enumerate().flat_map(whole).collect();
    let outcome = |(_, run): &(usize, ScenarioRun)| {
        run.simulate().with_context(|| format!("run {}", run.name))
    };
    let outcomes = parallel_map(&queue, jobs, watch, outcome);
    let done = outcomes.iter().flatten().count();
    if done < queue.len() {
        bail!("stopped after {done} of {} runs", queue.len());
    }
    let mut all: Vec<_> = tables.iter().map(|_| RunOutcomes::default()).collect();
    for ((table, run), outcome) in queue.iter().zip(outcomes.into_iter().flatten()) {
        all[*table].0.insert(run.name, outcome?);
    }
    Ok(all)
}
