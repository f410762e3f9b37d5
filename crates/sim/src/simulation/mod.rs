//! The run of a world: its start, its events, and the next operation of each task.

mod dispatch;
mod memory_access;
mod next_op;
mod scenario_actions;
mod start;
mod tick;
mod turn_loop;
