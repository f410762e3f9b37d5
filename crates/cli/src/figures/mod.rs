//! The figures that a verb prints alone, by `--figure`. SPEC.md promises them. The checks of
//! SPEC.md read them as a line of JSON with `measured`, and `unit` if there is one.

mod agent;
mod balance;
mod calls;
mod compare;
mod pager;
mod pool;
mod reproduce;
mod sim;
mod swarm;

pub use agent::AgentFigure;
pub use balance::BalanceFigure;
pub use calls::CallsFigure;
pub use compare::CompareFigure;
pub use pager::{PageSizeValue, PagerFigure, RowFigure};
pub use pool::PoolFigure;
pub use reproduce::ReproduceFigure;
pub use sim::SimFigure;
pub use swarm::SwarmFigure;

/// Rounds to the thousandth: further digits only vary from run to run.
pub fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}
