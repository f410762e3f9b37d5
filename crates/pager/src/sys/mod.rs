//! The only module with unsafe code: userfaultfd, mappings, fork handlers and copy routines. It
//! makes no decisions.

mod copy;
mod fork;
mod mapping;
mod memory;
mod row;
mod rseq;
mod thread;
mod transfer;
mod trial;
mod try_lock;
#[cfg(test)]
mod try_lock_tests;
mod uffd;

pub use copy::{Routine, evict, routines};
pub use fork::on_fork;
pub use mapping::{Advice, Lent, Mapping, Slot};
pub use memory::prefetch;
pub use row::Row;
pub use rseq::current_cpu;
pub use thread::{block_signals, hold_signals};
pub use transfer::{Passage, bring, bring_copy};
pub use trial::{try_move, try_remap};
pub use try_lock::{Guard, TryLock};
pub use uffd::{FEATURE_MOVE, FEATURE_THREAD_ID};
pub use uffd::{Fault, Stopped, Transfer, Uffd};
