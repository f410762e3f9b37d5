//! Simulations in series, each of which becomes a table or a list of findings.
//!
//! [`reproduce`] simulates what five documents measured. [`compare`] runs the same load under one
//! balancer after the other. [`scaling`] moves memory by more and more workers. [`swarm`] draws
//! machines from seeds and checks each while it runs. All of them run machines on all CPUs
//! ([`parallel`]).

#![forbid(unsafe_code)]

mod command_lines;
pub mod compare;
pub mod parallel;
pub mod reproduce;
pub mod scaling;
pub mod swarm;

pub use command_lines::command_lines;
