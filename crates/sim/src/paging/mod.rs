//! Pages of processes: faults, the node of a fresh page, copies on write, soft-dirty bits, and
//! memory that is populated at the start.

mod copy_on_write;
mod page_fault;
mod page_placement;
mod populate;
mod soft_dirty;
mod written_pages;
