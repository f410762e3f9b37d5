//! The room where unsafe code is allowed: one function per system call that no safe library offers.
//! Slices go in, owned values come out, and nothing is decided here.

mod area;
mod hold;
pub mod mempolicy;
mod pages;
mod probes;
mod scan;
mod thread;
mod view;

pub use area::{Area, Backing, Usage};
pub use hold::vmsplice;
pub use pages::{move_pages, query_pages};
pub use probes::{move_pages_with_unknown_flag, pagemap_scan_without_size};
pub use scan::{PageRegion, Wanted, scan_pages};
pub use thread::{
    ask_for_long_slices, disable_huge_pages, fork_idle, huge_pages_are_disabled, thread_usage,
};
pub use view::{FileView, knows_populate};
