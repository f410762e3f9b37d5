//! The swarm: simulated machines by the thousand, each drawn from its seed, and checkers that
//! observe each while it runs.
//!
//! A seed decides the machine, programs, faults, and how memory is moved ([`generator`]). Some
//! machines, the wildest valid ones, are only watched. On the others, rounds of the mover move
//! memory, first during the faults, then until all of it is on its wanted node ([`run()`]), or a
//! balancer that is killed now and then places groups of threads and memory.
//! The checkers ([`check`]) count independently.

mod case_run;
pub mod check;
mod checked_machine;
mod event_counts;
pub mod generator;
mod group_rounds;
mod migration_rounds;
pub mod planted_bugs;
pub mod scenario_toml;
mod seeded_rng;
mod seeds;

pub use case_run::{CaseResult, MISPLACED_MILLI, ROUNDS_MAX, run};
pub use event_counts::EventCounts;
pub use seeded_rng::SeededRng;
pub use seeds::{Swarm, SwarmSummary};
