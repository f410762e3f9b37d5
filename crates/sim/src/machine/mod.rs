//! Implements the contract `nodeward_machine::Machine` by a simulated world: processes, calls that
//! move pages, and watches. Tests and experiments change the world through methods of
//! [`SimMachine`].

mod access_source;
mod cleared_processes;
mod inspection;
mod lockstep;
mod move_call;
mod process;
mod process_watch;
mod sim_machine;
mod test_hooks;
mod thread_records;
mod topology;
mod user_control;

pub use inspection::PageView;
pub use sim_machine::{ProcessView, SimMachine};
