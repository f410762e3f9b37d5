//! Page faults of a program's threads in regions.
//!
//! One thread serves them, and never uses the program's allocator: the thread that faulted may be
//! inside malloc(3). A second one, the allocation thread, does the work that needs memory.

mod allocation_thread;
mod handler;
mod server;

pub use handler::FaultHandler;
