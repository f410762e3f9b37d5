//! The run of a world: its start, its events one after the other, and the next operation of each
//! task. This is the upper layer: it calls all others.

mod dispatch;
mod memory_access;
mod next_op;
mod scenario_actions;
mod start;
mod tick;
mod turn_loop;
