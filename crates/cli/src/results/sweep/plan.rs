//! The plan of a sweep: its points, its columns, and its id.

use std::hash::Hasher as _;

use anyhow::{Context, Result, bail};
use nodeward_scenario::{Axis, Grid, GridPoint, Scenario, ScenarioText};
use nodeward_sim::{SimReport, hashes};
use serde_json::json;
use siphasher::sip::SipHasher13;

use super::measure::{self, Measure};
use crate::args::SweepArgs;

/// The first columns of every row; the keys follow, then the measures.
pub const IDENTITY_COLUMNS: [&str; 4] = ["point", "of", "sweep", "seed"];

/// The cells of a point, in the order of the columns.
pub type SweepRow = Vec<String>;

/// The plan of a sweep.
pub struct SweepPlan {
    /// Its points.
    pub grid: Grid,
    /// The names of its columns.
    pub columns: Vec<String>,
    /// The id of the sweep: a hash of everything that a row depends on. It begins with a letter, so
    /// that it is not taken for a number.
    pub id: String,
    source: ScenarioText,
    overrides: Vec<(String, String)>,
    limit: Option<u64>,
    measures: Vec<Measure>,
}

impl SweepPlan {
    /// Creates the plan of a command line. The scenario of every point is built once, so that an
    /// invalid value is reported before anything runs.
    pub fn new(name: &str, args: &SweepArgs) -> Result<Self> {
        let source = ScenarioText::find(name)?;
        let grid = Grid::new(args.grid.clone(), args.seeds.clone())?;
        let keys = || grid.axes().iter().map(Axis::key);
        if let Some(key) = keys().find(|key| args.set.iter().any(|(set, _)| set == key)) {
            bail!("{key} is both in --grid and in --set; leave one out");
        }
        if args.limit.is_some() && keys().any(|key| key == "time") {
            bail!("--limit is the same for all points, so `time` cannot be in --grid");
        }
        let mut plan = Self {
            columns: Vec::new(),
            id: String::new(),
            source,
            overrides: args.set.clone(),
            limit: args.limit,
            measures: Vec::new(),
            grid,
        };
        plan.check()?;
        let first = plan.scenario(&plan.grid.point(0))?;
        plan.measures = measure::chosen(&first, &args.measure)?;
        let names = plan.measures.iter().map(|measure| measure.name.clone());
        let head = IDENTITY_COLUMNS.into_iter().chain(plan.grid.axes().iter().map(Axis::key));
        plan.columns = head.map(str::to_owned).chain(names).collect();
        plan.id = plan.fingerprint();
        Ok(plan)
    }

    /// Builds the scenario of every combination; seeds do not change it.
    fn check(&self) -> Result<()> {
        let combinations = (0..self.grid.points()).step_by(self.grid.seeds().len());
        combinations.map(|number| self.grid.point(number)).try_for_each(|point| {
            self.scenario(&point).map(drop).with_context(|| format!("point {}", point.number))
        })
    }

    /// Returns the scenario of a point.
    pub fn scenario(&self, point: &GridPoint<'_>) -> Result<Scenario> {
        let values = self.grid.axes().iter().zip(&point.values);
        let values = values.map(|(axis, value)| (axis.key(), *value));
        let sets = self.overrides.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let mut scenario = self.source.with(&sets.chain(values).collect::<Vec<_>>())?;
        scenario.time_ns = self.limit.unwrap_or(scenario.time_ns);
        Ok(scenario)
    }

    /// Returns the cells before the measures.
    pub fn identity(&self, number: usize) -> SweepRow {
        let point = self.grid.point(number);
        let of = self.grid.points().to_string();
        let mut cells = vec![number.to_string(), of, self.id.clone(), point.seed.to_string()];
        cells.extend(point.values.iter().map(|&value| value.to_owned()));
        cells
    }

    /// Returns the whole row of a point that was simulated.
    pub fn row(&self, number: usize, report: &SimReport) -> SweepRow {
        let mut cells = self.identity(number);
        cells.extend(self.measures.iter().map(|measure| measure.cell(report)));
        cells
    }

    /// Returns the position of the first measure in a row.
    pub fn first_measure(&self) -> usize {
        IDENTITY_COLUMNS.len() + self.grid.axes().len()
    }

    /// Returns a hash of everything that rows depend on, the simulator included: simulators that
    /// differ in a run of a built-in scenario have different hashes.
    fn fingerprint(&self) -> String {
        let axes = self.grid.axes().iter().map(|axis| json!([axis.key(), axis.values()]));
        let told = json!([
            self.source.text(),
            axes.collect::<Vec<_>>(),
            self.grid.seeds(),
            self.overrides,
            self.limit,
            self.columns,
            hashes::committed(),
        ]);
        let mut hasher = SipHasher13::new();
        hasher.write(told.to_string().as_bytes());
        format!("x{:016x}", hasher.finish())
    }
}
