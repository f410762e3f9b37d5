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
mod load;
mod machine;
mod overrides;
mod params;
mod read;
mod scenario;
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
pub use scenario::{REPORT, Scenario};
pub use suggest::did_you_mean;
pub use workload::{
    AccessPattern, DutyCycle, InitialHome, MemoryPlacement, SharedLines, Workload, WorkloadKind,
};
