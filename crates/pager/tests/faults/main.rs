//! Faults around a pager: bad input, other users of the pages, forks, signals, programs that change
//! managed memory, and all of it at once. Nothing is lost, no thread waits for ever, and reports
//! are true.

mod bad_input;
mod callers;
mod common;
mod forks;
mod holders;
mod huge;
mod huge_arrival;
mod ksm;
mod limits;
mod memory_changes;
mod pool;
mod range_lists;
mod remap;
mod signals;
mod torture;
