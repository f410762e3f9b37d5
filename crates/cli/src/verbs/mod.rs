//! The verbs. Each resolves its arguments, calls the crates below, prints the result, and returns
//! an exit code.

pub mod balance;
pub mod bench;
mod by_agent;
pub mod config;
pub mod doctor;
pub mod evacuate;
pub mod explain;
pub mod export;
pub mod group;
pub mod ledger;
pub mod manual;
pub mod migratepages;
pub mod move_files;
mod move_operands;
pub mod move_processes;
mod move_task;
pub mod numad;
pub mod pcp;
pub mod placement;
mod process_selection;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod show;
pub mod sim;
pub mod spread;
mod spread_operands;
pub mod top;
pub mod undo;
pub mod watch;
