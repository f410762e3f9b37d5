//! Simulations of what five documents measured: a table for each, and how far nodeward improves on
//! it.
//!
//! The documents are nodeward's seeds. A [`DocumentTable`] has *runs* of scenarios that describe a
//! seed's machine and workload, and *rows*: a figure of the seed, ours, and the explanation. A
//! figure of a seed is used only as the expected value of a row. Each row states the parameters
//! that were fitted on it. Rows without fitted parameters are predictions. Hold-outs are figures of
//! others that were not looked at while parameters were chosen.

mod counter_driven;
pub mod documents;
mod evaluation;
mod figure_table;
mod home_runs;
mod mover_runs;
mod page_search;
mod run_outcome;
mod scenario_runs;
mod table_runs;

pub use evaluation::{
    ImprovementResult, RowResult, RowVerdict, RunCommand, StepResult, TableResult,
};
pub use figure_table::{
    Basis, Better, DocumentTable, Expected, FigureRow, FigureUnit, Fitted, Improvement,
    ImprovementGoal, ImprovementStep, RowKind,
};
pub(crate) use mover_runs::move_first_process;
pub use run_outcome::RunOutcome;
pub use scenario_runs::{RunOutcomes, ScenarioRun};
pub use table_runs::run_all;
