//! What five documents measured, simulated: a table for each, and how far nodeward gets beyond.
//!
//! The documents are nodeward's seeds. A [`Table`] has *runs* of scenarios that describe a seed's
//! machine and workload, and *rows*: a figure of the seed, ours, and why it is what it is. A figure
//! of a seed is only ever what a row expects. What parameters were fitted on is told row by row;
//! rows that nothing was fitted on are predictions, and hold-outs are figures of others that nobody
//! looked at while parameters were chosen.

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
