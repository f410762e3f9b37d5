//! Scenarios: machines and their workloads, as TOML files (`scenarios/*.toml`). The simulator reads
//! them as a whole, the lab their topology.
//!
//! A [`Scenario`] value is consistent: contradictory input was refused with file and line.

#![forbid(unsafe_code)]

mod action;
mod built_in;
mod check;
mod error;
mod exact;
mod faults;
mod grid;
pub mod limits;
mod machine;
mod overrides;
mod params;
mod read;
mod suggest;
mod toml_tree;
mod workload;

pub use action::{Action, ActionKind, SchedulerKind};
pub use built_in::{BUILT_IN, ScenarioText};
pub use error::{Error, ErrorLocation};
pub use faults::{Bug, FaultInjection};
pub use grid::{Axis, Grid, GridError, GridPoint, POINTS_MAX, Seeds, Shard};
pub use machine::{LOCAL_DISTANCE, LinkSpec, MachineSpec, NodeSpec};
pub use params::{ParamInfo, ParamUnit, Params};
pub use workload::{
    AccessPattern, DutyCycle, InitialHome, MemoryPlacement, Workload, WorkloadKind,
};

use std::path::Path;

use error::SourceError;

/// The sections of a report, as `report` names them, in their usual order.
pub const REPORT: [&str; 8] =
    ["memory", "workloads", "nodes", "actions", "time", "latencies", "counters", "curves"];

/// A machine, its workloads, and the simulated time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Its name in messages and file names.
    pub name: String,
    /// Its purpose, in a sentence; may be empty.
    pub about: String,
    /// The hardware and its costs.
    pub machine: MachineSpec,
    /// The workloads; empty for a machine without programs.
    pub workloads: Vec<Workload>,
    /// The scheduler, which places threads.
    pub scheduler: SchedulerKind,
    /// Whether the kernel balances by hint faults (kernel.numa_balancing = 1).
    pub numa_balancing: bool,
    /// Actions on the programs while they run, in order of time.
    pub actions: Vec<Action>,
    /// Injected faults. `None` if there are none; then the state that checkers of contents need is
    /// not kept either.
    pub faults: Option<FaultInjection>,
    /// Simulated time, in virtual nanoseconds.
    pub time_ns: u64,
    /// Interval between points of the time series of a report, in virtual nanoseconds.
    pub sample_ns: u64,
    /// The sections of the report, of [`REPORT`], in this order; empty for everything that
    /// happened.
    pub report: Vec<String>,
}

impl Scenario {
    /// Parses a scenario from the text of its file. Its name is taken from `name`, which may be a
    /// path.
    ///
    /// # Errors
    /// The error states the place in the text, and what was expected there.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        Self::with::<&str>(name, text, &[])
    }

    /// Parses a scenario with other values for some keys, such as `machine.latency` or
    /// `workload.stream.processes`.
    ///
    /// # Errors
    /// The error states the place in the text or the override, and what was expected there.
    pub fn with<S: AsRef<str>>(name: &str, text: &str, sets: &[(S, S)]) -> Result<Self, Error> {
        let stem = Path::new(name.strip_suffix(".toml").unwrap_or(name)).file_name();
        let stem = stem.map_or_else(|| name.into(), |stem| stem.to_string_lossy());
        read_checked(&stem, text, sets).map_err(|fault| fault.in_file(name))
    }

    /// Finds a scenario by the name of a built-in one, or else by the path of its file.
    ///
    /// # Errors
    /// As [`Scenario::parse`]; or if there is neither a built-in scenario of that name nor such a
    /// file.
    pub fn find(name_or_path: &str) -> Result<Self, Error> {
        Self::find_with::<&str>(name_or_path, &[])
    }

    /// Finds a scenario and applies overrides.
    ///
    /// # Errors
    /// As [`Scenario::with`]; or if there is neither a built-in scenario of that name nor such a
    /// file.
    pub fn find_with<S: AsRef<str>>(name_or_path: &str, sets: &[(S, S)]) -> Result<Self, Error> {
        ScenarioText::find(name_or_path)?.with(sets)
    }

    /// Checks that everything is consistent and within the limits, as it is for every scenario from
    /// a text.
    ///
    /// # Errors
    /// The error states the value, and what was expected.
    pub fn check(&self) -> Result<(), Error> {
        let flaw = check::scenario(self).and_then(|()| check::action_order(&self.actions));
        flaw.map_err(|flaw| {
            let place = ErrorLocation::Value(flaw.path.to_string());
            SourceError { location: place, problem: flaw.problem, expected: flaw.expected }
                .in_file(&self.name)
        })
    }
}

fn read_checked<S: AsRef<str>>(
    name: &str,
    text: &str,
    sets: &[(S, S)],
) -> Result<Scenario, SourceError> {
    let mut root = toml_tree::parse(text)?;
    for (key, value) in sets {
        overrides::apply(&mut root, key.as_ref(), value.as_ref())?;
    }
    let mut scenario = read::scenario(name, &root)?;
    check::scenario(&scenario).map_err(|flaw| {
        let place = flaw.path.location_in(&root);
        SourceError { location: place, problem: flaw.problem, expected: flaw.expected }
    })?;
    scenario.actions.sort_by_key(|action| action.at_ns);
    Ok(scenario)
}
