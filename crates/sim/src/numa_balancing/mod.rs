//! The kernel's automatic NUMA balancing.

mod hint_faults;
mod lazy_faults;
mod placement;
mod scan;
mod sched_numa_2012;

pub use scan::NumaBalancing;
pub use sched_numa_2012::SchedNuma;
