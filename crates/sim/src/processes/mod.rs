//! Processes: how they start, fork, freeze, are killed and exit.

mod exit;
mod fork;
mod freeze;
mod kill;
mod segments;
mod start;
