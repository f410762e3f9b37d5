//! The kernel's automatic NUMA balancing (kernel.numa_balancing = 1), as in Linux 6.12, and the
//! home balancer of sched/numa (2012).
//!
//! Threads clear the entries of their own process's pages, a fixed amount per scan period (`scan`).
//! A thread that touches such a page takes a fault (`lazy_faults`), which shows where the page is
//! used. `hint_faults` decides which pages move in it. `placement` decides which node a thread
//! prefers. The scheduler brings threads to their node (`scheduler/preferred.rs`). The statistics
//! that all of them read are in `cpu/numa_state.rs`.
//!
//! Not modelled: the filter of mappings by the threads that use them, preferred nodes by topologies
//! that are not fully connected, further active nodes as targets of a group, and memory tiers.

mod hint_faults;
mod lazy_faults;
mod placement;
mod scan;
mod sched_numa_2012;
