//! The contract between nodeward and a machine: one file of methods that each kind of machine
//! provides, their errors, a fake machine for tests, and the test bodies that every machine must
//! pass.
//!
//! Partial success is a value, never an error: `Err` means that nothing could be attempted.

#![forbid(unsafe_code)]

mod batch;
pub mod conformance;
mod contract;
mod error;
pub mod paper;

pub use batch::{CallEnd, EntryStatus, MoveBatch, MoveOutcome, Refusal, SEPARATOR};
pub use contract::{Capabilities, Life, Machine, Process, Watch};
pub use error::{Error, Result};
