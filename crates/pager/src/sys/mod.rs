//! The only module with unsafe code: userfaultfd, mappings, fork handlers and copy routines. It
//! makes no decisions.

mod copy;
mod fork;
mod mapping;
mod memory;
mod mmap_slice;
mod rseq;
mod thread;
mod transfer;
mod trial;
mod try_lock;
#[cfg(test)]
mod try_lock_tests;
mod uffd;

// While a thread holds a lock that the thread behind page faults takes, and for ever in threads of
// the library: a signal handler of the program may touch a page that is out of sight.
pub use nodeward_linux::signal_mask::{block_signals, block_signals_in_scope};

pub use copy::{CopyRoutine, evict, routines};
pub use fork::on_fork;
pub use mapping::{Advice, AnonMapping, LentBytes, Slot};
pub use memory::prefetch;
pub use mmap_slice::MmapSlice;
pub use rseq::current_cpu;
pub use thread::{HeldThread, hold_thread};
pub use transfer::{TransferMethod, copy_from_slot, copy_without_wake, map_from_slot};
pub use trial::{try_huge_arrival, try_move, try_remap};
pub use try_lock::{TryLock, TryLockGuard};
pub use uffd::{FEATURE_MOVE, FEATURE_THREAD_ID};
pub use uffd::{IncompleteTransfer, TransferResult, Uffd, UffdFault};
