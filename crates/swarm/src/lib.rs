//! The swarm: simulated machines by the thousand, each drawn from its seed, and checkers that
//! observe each while it runs.
//!
//! A seed decides the machine, programs, faults, and how memory is moved ([`draw`]). Some machines,
//! the wildest valid ones, are only watched. On the others, rounds of the engine move memory, first
//! during the faults, then until all of it is on its wanted node ([`run()`]). The checkers
//! ([`check`]) count independently. Other crates that run many machines use the same [`crew`].

#![forbid(unsafe_code)]

pub mod canary;
mod chance;
pub mod check;
pub mod crew;
pub mod draw;
mod happened;
mod rounds;
mod run;
mod swarm;
pub mod text;
mod watched;

pub use chance::Chance;
pub use happened::Happened;
pub use run::{Done, MISPLACED_MILLI, ROUNDS_MAX, run};
pub use swarm::{Summary, Swarm};
