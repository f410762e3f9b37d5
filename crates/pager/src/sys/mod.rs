//! The room where unsafe code is allowed: userfaultfd, mappings, and copy routines. Nothing is
//! decided here.

mod copy;
mod trial;
mod uffd;

pub use copy::{Routine, evict, routines};
pub use trial::{try_move, try_remap};
pub use uffd::{CAN_COPY, CAN_MOVE, FEATURE_MOVE, FEATURE_THREAD_ID};
pub use uffd::{Fault, Stopped, Transfer, Uffd};
