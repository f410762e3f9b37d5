//! The only module with unsafe code: one function per system call that no safe library offers.
//! Arguments are slices, results are owned values, and the functions make no decisions.

mod area;
mod cached;
mod calls;
mod hold;
mod meddle;
pub mod mempolicy;
mod pages;
mod probes;
mod scan;
mod sched;
mod thread;
mod view;

pub use area::{Area, Backing, Usage};
pub use cached::count_cached;
pub use calls::{Carry, carry, futex_wait, futex_wake, merge_equal_pages};
pub use hold::{read_into, register_buffer, ring, unregister_buffers, vmsplice};
pub use meddle::{Meddling, meddle};
pub use pages::{move_pages, query_pages};
pub use probes::{move_pages_with_unknown_flag, pagemap_scan_without_size};
pub use scan::{PageRegion, Wanted, scan_pages};
pub use sched::{affinity, process_time_ns, set_affinity};
pub use thread::{
    ask_for_long_slices, disable_huge_pages, fork_and_run, fork_idle, huge_pages_are_disabled,
    on_signal, send_signal, thread_usage,
};
pub use view::{FileView, knows_populate};
