//! The workloads of a scenario, as tasks.

mod compile;
mod database;
mod duty_cycle;
mod fill;
mod hog;
mod moving_set;
mod page_fault;
mod phases;
mod ping_pong;
mod random;
mod start;
mod stream;
mod threads;
mod triad;

pub use fill::thread_pages;
pub use start::start_workloads;
