//! Runs of scenarios, all at once, and what came of them.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use nodeward_scenario::Scenario;
use nodeward_sim::World;
use nodeward_swarm::crew::{Watch, each};

use crate::outcome::Outcome;
use crate::table::Table;

/// Every choice that is left open comes from it.
pub const SEED: u64 = 1;

/// A run of a scenario.
#[derive(Clone)]
pub struct Run {
    /// The name that rows know it by; another one for each run of a table.
    pub name: &'static str,
    /// Which of the scenarios that come along.
    pub scenario: &'static str,
    /// Values for keys of it, `key=value`.
    pub set: Vec<String>,
    /// Who drives it; none if it is left alone from its beginning to its end.
    pub driver: Option<fn(&Scenario) -> Result<Outcome>>,
}

impl Run {
    /// From its beginning to its end.
    pub fn of(name: &'static str, scenario: &'static str) -> Self {
        Self { name, scenario, set: Vec::new(), driver: None }
    }

    /// With another value for a key.
    #[must_use]
    pub fn set(mut self, key: &str, value: &str) -> Self {
        self.set.push(format!("{key}={value}"));
        self
    }

    /// Driven by somebody who moves threads and memory meanwhile.
    #[must_use]
    pub fn driven(mut self, driver: fn(&Scenario) -> Result<Outcome>) -> Self {
        self.driver = Some(driver);
        self
    }

    /// The command that shows the same run, or what it is without its driver.
    pub fn command(&self) -> String {
        let sets: String = self.set.iter().map(|set| format!(" --set {set}")).collect();
        format!("nodeward sim {}{sets}", self.scenario)
    }

    fn outcome(&self) -> Result<Outcome> {
        let pair = |set: &String| {
            let (key, value) = set.split_once('=').unwrap_or((set, ""));
            (key.to_owned(), value.to_owned())
        };
        let sets: Vec<_> = self.set.iter().map(pair).collect();
        let scenario = Scenario::find_with(self.scenario, &sets)?;
        self.driver.unwrap_or(to_end)(&scenario)
    }
}

fn to_end(scenario: &Scenario) -> Result<Outcome> {
    let mut world = World::new(scenario, SEED);
    world.run_until(scenario.time_ns);
    Ok(Outcome::of(world.report()))
}

/// What came of the runs of a table, by their names.
#[derive(Default)]
pub struct Runs(BTreeMap<&'static str, Outcome>);

impl Runs {
    /// Of one run.
    ///
    /// # Panics
    ///
    /// If the table has no such run: a mistake of the table.
    pub fn of(&self, name: &str) -> &Outcome {
        self.0.get(name).unwrap_or_else(|| panic!("the table has no run {name}"))
    }
}

/// Runs what all tables need, so many at a time; the outcomes table by table.
///
/// # Errors
///
/// If a run cannot be made, or if it was told to stop.
pub fn run_all(tables: &[Table], jobs: usize, watch: &Watch) -> Result<Vec<Runs>> {
    let whole = |(index, table): (usize, &Table)| {
        table.runs.iter().map(move |run| (index, run.clone())).collect::<Vec<_>>()
    };
    let queue: Vec<_> = tables.iter().enumerate().flat_map(whole).collect();
    let outcome =
        |(_, run): &(usize, Run)| run.outcome().with_context(|| format!("run {}", run.name));
    let outcomes = each(&queue, jobs, watch, outcome);
    let done = outcomes.iter().flatten().count();
    if done < queue.len() {
        bail!("stopped after {done} of {} runs", queue.len());
    }
    let mut all: Vec<_> = tables.iter().map(|_| Runs::default()).collect();
    for ((table, run), outcome) in queue.iter().zip(outcomes.into_iter().flatten()) {
        all[*table].0.insert(run.name, outcome?);
    }
    Ok(all)
}
