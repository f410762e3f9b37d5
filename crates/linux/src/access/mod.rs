//! Observes which thread uses which memory of a running process, and from which CPU.
//!
//! The sources here are events of perf that need no hardware counter. Their rings cover all CPUs
//! or, without privileges, threads. [`records`] reads what the kernel writes there.

mod observed;
mod page_faults;
pub mod probe;
pub mod records;
mod registers;
pub mod ring;
pub mod rings;
mod soft_dirty;
mod source;
mod stall_budget;
mod status;

pub use status::{open, statuses};
