//! Pages of processes: faults, placement, and memory that is populated at the start.

mod copy_on_write;
mod page_fault;
mod page_placement;
mod populate;
