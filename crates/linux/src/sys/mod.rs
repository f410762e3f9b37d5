//! The room where unsafe code is allowed: one function per system call that no safe library offers.
//! Slices go in, owned values come out, and nothing is decided here.

mod area;
mod hold;
pub mod mempolicy;
mod pages;
mod scan;
mod thread;

pub use area::{Area, Backing, Usage};
pub use hold::vmsplice;
pub use pages::{move_pages, query_pages};
pub use scan::{PageRegion, scan_populated};
pub use thread::{disable_huge_pages, fork_idle, thread_usage};
