//! Comparison of balancers in the lab, on the same workloads: the locality of last-level misses,
//! the time until it is reached, migrated pages, CPU time, and the duration of the work.
//!
//! Every run begins from the same snapshot, work is counted in passes and not in seconds, and
//! balancers take turns, so that other load of the host affects all of them.

#![forbid(unsafe_code)]

mod balancers;
mod json;
mod measured_costs;
mod median_range;
mod miss_timeline;
mod page;
mod prediction;
mod programs;
mod run;
mod sampler;
mod settings;
mod stream_tasks;
mod table;
mod text;
mod truth;
mod truth_page;
mod workloads;

pub use balancers::{BalancerSetup, balancers};
pub use json::json;
pub use measured_costs::{measure_costs, with_costs};
pub use median_range::MedianRange;
pub use miss_timeline::{MissSample, MissTimeline};
pub use page::page;
pub use prediction::{kind_of, predict};
pub use programs::GuestPrograms;
pub use run::{RunResult, run_workload};
pub use settings::CompareSettings;
pub use table::{CompareRow, CompareTable, RowFigures, RunKey};
pub use text::text;
pub use truth::{Both, Truth, TruthRow};
pub use truth_page::truth_page;
pub use workloads::{LabWorkload, workload_names};
