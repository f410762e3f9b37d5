//! Page faults of a program's threads in regions: the thread that serves them, and the allocation
//! thread, which does the work that needs the program's allocator.

mod allocation_thread;
mod handler;

pub use allocation_thread::AllocationClient;
pub use handler::{FaultHandler, RegionTable};
