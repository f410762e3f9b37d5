//! The workloads of a scenario, as tasks.

mod compile;
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
mod triad;

pub use phases::Barrier;
pub use start::start_workloads;
pub use stream::StreamWindow;
