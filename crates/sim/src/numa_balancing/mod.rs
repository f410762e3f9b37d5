//! The kernel's automatic NUMA balancing.

mod hint_faults;
mod lazy_faults;
mod placement;
mod scan;
mod sched_numa_2012;
