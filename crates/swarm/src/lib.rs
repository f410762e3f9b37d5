//! The swarm: simulated machines by the thousand, each drawn from its seed, and checkers that look
//! at each while it runs.

#![forbid(unsafe_code)]

mod chance;
pub mod draw;
pub mod text;

pub use chance::Chance;
