//! The same workloads under one balancer after the other, in the lab: how local last-level misses
//! become, how soon, at the price of how many migrated pages and how much CPU time, and how long
//! the work takes.
//!
//! Every run goes on from the same snapshot, work is counted in passes and not in seconds, and
//! balancers take turns, so that whatever else the host does falls on all of them.

#![forbid(unsafe_code)]

mod balancers;
mod json;
mod page;
mod programs;
mod run;
mod sampler;
mod settings;
mod spread;
mod table;
mod text;
mod track;
mod workloads;

pub use balancers::{Contender, contenders};
pub use json::json;
pub use page::page;
pub use programs::Programs;
pub use run::{Outcome, perform};
pub use settings::Settings;
pub use spread::Spread;
pub use table::{Cells, Key, Row, Table};
pub use text::text;
pub use track::{Sample, Track};
pub use workloads::{Workload, workloads};
