//! Comparison of balancers on simulated machines: each runs the same load.
//!
//! A [`Case`] is a scenario with the goals for nodeward. It is run under each [`Balancer`] that
//! makes sense ([`run()`]), and the outcomes become a table with its goals ([`Judged`]). Loads
//! whose memory should not move at all are checked on machines drawn from seeds ([`steady`]).

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
