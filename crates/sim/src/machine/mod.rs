//! A world as a machine of the contract that nodeward works on.

mod inspection;
mod lockstep;
mod move_call;
mod process;
mod process_watch;
mod sim_machine;
mod test_hooks;
mod topology;
mod user_control;

pub use inspection::PageView;
pub use sim_machine::{ProcessView, SimMachine};
