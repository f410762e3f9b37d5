//! The only module with unsafe code: one function per system call that no safe library offers.
//! Arguments are slices, results are owned values, and the functions make no decisions.

mod area;
mod cachestat;
mod calls;
mod memory_change;
pub mod mempolicy;
mod pages;
mod peer;
mod perf_event;
mod pin;
mod probes;
mod scan;
mod sched;
pub mod signal_mask;
mod thread;
mod view;

pub use area::{AreaAdvice, AreaBacking, MappedArea};
pub use cachestat::count_cached;
pub use calls::{TransferCall, futex_wait, futex_wake, merge_equal_pages, transfer};
pub use memory_change::{MemoryChange, change_memory};
pub use pages::{collapse, deactivate, migrate_pages, move_pages, query_pages};
pub use peer::{duplicate, peer_ids, peer_pidfd, pid_from_namespace, pidfd_ids};
pub use perf_event::{
    PerfAttributes, PerfCounter, PerfEvent, PerfScope, RING_HEAD_WORD, RING_TAIL_WORD,
    open_perf_event, perf_event_with_unknown_flag,
};
pub use pin::{read_into, register_buffer, setup_ring, unregister_buffers, vmsplice};
pub use probes::{move_pages_with_unknown_flag, pagemap_scan_without_size};
pub use scan::{PageCategory, PageRegion, scan_pages};
pub use sched::{affinity, process_time_ns, set_affinity};
pub use thread::{
    allow_huge_pages, ask_for_long_slices, disable_huge_pages, fork_and_run, fork_idle,
    huge_pages_are_disabled, on_signal, send_signal, thread_usage,
};
pub use view::{FileView, knows_populate};
