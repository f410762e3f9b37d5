//! Balancers side by side on simulated machines: the same load under each, and what came of it.
//!
//! A [`Case`] is a scenario and what is asked of nodeward there. It is run under each [`Balancer`]
//! that makes sense ([`run()`]), and the outcomes become a table with its goals ([`Judged`]). What
//! should never move is looked at on machines that are drawn from seeds ([`steady`]).

#![forbid(unsafe_code)]

mod balancer;
mod bout;
mod case;
mod hand;
pub mod steady;
mod table;

pub use balancer::Balancer;
pub use bout::{Outcome, run};
pub use case::{Asked, CASES, Case};
pub use table::{Entry, Goal, GoalOf, Judged, judge};
