//! A world as a machine of the contract (`nodeward_machine::Machine`): processes, calls that move
//! pages, watches, and what tests and experiments do to it.

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
