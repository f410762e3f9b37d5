//! The words of the command beside its results: messages on standard error, exit codes, the layout
//! of its help. It has the one place that prints on standard output.

#[macro_use]
pub mod say;

pub mod deprecated;
pub mod exit;
pub mod help;
pub mod stdout;
