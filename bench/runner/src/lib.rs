//! The protocol between `nodeward-runner`, which runs tasks under a balancer inside the lab, and
//! its caller: a [`RunSpec`] goes in, [`RunEvent`]s come out.
//!
//! The tasks are `nodeward-stream`, the other program of this package.

#![forbid(unsafe_code)]

pub mod affinity;
mod event;
mod machine_costs;
mod run_spec;
pub mod vmstat;

pub use event::{CounterSample, RunEnd, RunEvent, RunOverhead};
pub use machine_costs::MachineCosts;
pub use run_spec::{BalancerSpec, FOREIGN_PAGE_STRIDE, RunSpec, TaskSpec};
