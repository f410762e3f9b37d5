//! Comparison of balancers on simulated machines: each runs the same load.
//!
//! A [`CompareCase`] is a scenario with the goals for nodeward. It is run under each
//! [`BalancerKind`] that makes sense ([`run()`]), and the outcomes become a table with its goals
//! ([`CaseTable`]). Loads whose memory should not move at all are checked on machines drawn from
//! seeds ([`steady`]).

mod balancer;
mod case;
mod case_table;
mod compare_run;
mod manual_placement;
pub mod steady;

pub use balancer::{BalancerKind, NodewardSetup};
pub use case::{CASES, CompareCase, Requirement};
pub use case_table::{
    BalancerFigures, CaseTable, CompareGoal, FigureSpan, GoalMeasure, Outcomes, RunFigures,
    evaluate_case,
};
pub use compare_run::{CompareOutcome, RunOptions, SEED, run, run_machine, run_with};
