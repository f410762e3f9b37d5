//! Simulations of what five documents measured: a table for each, and how far nodeward improves on
//! it.
//!
//! The documents are nodeward's seeds. A [`Table`] has *runs* of scenarios that describe a seed's
//! machine and workload, and *rows*: a figure of the seed, ours, and the explanation. A figure of a
//! seed is used only as the expected value of a row. Each row states the parameters that were
//! fitted on it. Rows without fitted parameters are predictions. Hold-outs are figures of others
//! that were not looked at while parameters were chosen.

#![forbid(unsafe_code)]

mod counted;
mod engine;
mod homes;
mod judge;
mod outcome;
mod runs;
mod search;
pub mod seeds;
mod table;

pub use judge::{BeyondResult, RowResult, RunCommand, StepResult, TableResult, Verdict};
pub use outcome::Outcome;
pub use runs::{Run, Runs, run_all};
pub use table::{Basis, Better, Beyond, Expected, Fitted, Goal, Kind, Row, Step, Table, Unit};
