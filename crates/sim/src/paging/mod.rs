//! Pages of processes: faults, placement, and memory that is populated at the start.

mod page_fault;
mod populate;
