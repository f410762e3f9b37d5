//! The state of a whole simulated machine.

mod queries;
mod state;
mod task_program;

pub use state::{NEVER_NS, TURN_NS, TurnWork, World};
pub use task_program::TaskProgram;
