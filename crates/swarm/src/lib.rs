//! The swarm: simulated machines by the thousand, each drawn from its seed, and checkers that look
//! at each while it runs.
//!
//! A seed decides a machine, programs, what goes wrong, and who moves memory ([`draw`]). Some
//! machines are only watched, the wildest that are accepted; on the others rounds of the engine
//! move memory, first while things go wrong, then until all of it is where it is wanted
//! ([`run()`]). The checkers ([`check`]) count for themselves. Whoever else runs many machines has
//! the same [`crew`].

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
