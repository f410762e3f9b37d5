//! The room where unsafe code is allowed: userfaultfd, mappings, fork handlers and copy routines.
//! Nothing is decided here.

mod copy;
mod fork;
mod mapping;
mod thread;
mod transfer;
mod trial;
mod uffd;

pub use copy::{Routine, evict, routines};
pub use fork::on_fork;
pub use mapping::{Advice, Mapping, Slot};
pub use thread::block_signals;
pub use transfer::{Passage, bring, bring_copy};
pub use trial::{try_move, try_remap};
pub use uffd::{FEATURE_MOVE, FEATURE_THREAD_ID};
pub use uffd::{Fault, Stopped, Transfer, Uffd};
