//! Runs of scenarios, and their outcomes by name.

use std::collections::BTreeMap;

use anyhow::Result;
use nodeward_scenario::Scenario;
use nodeward_sim::World;

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

    /// Runs the scenario, with its driver if it has one.
    pub(super) fn simulate(&self) -> Result<RunOutcome> {
        let pair = |set: &String| {
            let (key, value) = set.split_once('=').unwrap_or((set, ""));
            (key.to_owned(), value.to_owned())
        };
        let sets: Vec<_> = self.overrides.iter().map(pair).collect();
        let scenario = Scenario::find_with(self.scenario, &sets)?;
        self.driver.unwrap_or(Self::run)(&scenario)
    }

    /// Runs a scenario to its end, without a driver.
    pub(crate) fn run(scenario: &Scenario) -> Result<RunOutcome> {
        let mut world = World::new(scenario, SEED);
        world.run_until(scenario.time_ns);
        Ok(RunOutcome::of(world.report()))
    }
}

/// The outcomes of the runs of a table, by name.
#[derive(Default)]
pub struct RunOutcomes(BTreeMap<&'static str, RunOutcome>);

impl RunOutcomes {
    /// Adds the outcome of a run.
    pub(super) fn insert(&mut self, name: &'static str, outcome: RunOutcome) {
        self.0.insert(name, outcome);
    }

    /// Returns the outcome of a run.
    ///
    /// # Panics
    ///
    /// If the table has no such run: a mistake of the table.
    pub fn of(&self, name: &str) -> &RunOutcome {
        self.0.get(name).unwrap_or_else(|| panic!("the table has no run {name}"))
    }
}
