//! The contract between nodeward and a machine: one file of methods that each kind of machine
//! provides, their errors, a fake machine for tests, and the test bodies that every machine must
//! pass.
//!
//! Partial success is a value, never an error: `Err` means that nothing could be attempted.

#![forbid(unsafe_code)]

mod access_source;
mod clear_schedule;
mod collapse;
pub mod conformance;
mod contract;
mod error;
pub mod fake;
mod home_scheduler;
mod move_pages;
mod numa_balancing;
mod thread_records;
mod worker_registry;

pub use access_source::{
    AccessBatch, AccessSampling, AccessSource, AccessSourceKind, AccessSourceStatus,
};
pub use clear_schedule::{CLEAR_ENTRY_NS, CLEAR_STALL_NS_MAX, ClearSchedule};
pub use collapse::{CollapseOutcome, CollapseRefusal};
pub use contract::{Capabilities, Liveness, Machine, PagesByMapping, Process, ProcessWatch};
pub use error::{Error, Result};
pub use home_scheduler::HomeScheduler;
pub use move_pages::{
    CallEnd, EntryRefusal, EntryStatus, MovePagesCall, MovePagesOutcome, SEPARATOR,
};
pub use numa_balancing::NumaBalancingSwitch;
pub use thread_records::{ThreadRecord, ThreadRecordBatch, ThreadRecords};
pub use worker_registry::WorkerRegistry;
