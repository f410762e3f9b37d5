//! The run of a world: its start, its events, and the next operation of each task.

mod memory_access;
mod next_op;
mod scenario_actions;

pub use memory_access::CachedResidency;
pub use scenario_actions::{MoveRecord, ProcessMigration};
