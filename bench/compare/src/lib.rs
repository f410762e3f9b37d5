//! Comparison of balancers in the lab, on the same workloads: the locality of last-level misses,
//! the time until it is reached, migrated pages, CPU time, and the duration of the work.
//!
//! Every run begins from the same snapshot, work is counted in passes and not in seconds, and
//! balancers take turns, so that other load of the host affects all of them.

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
