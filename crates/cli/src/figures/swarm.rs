//! The figures of `sim swarm`.

use clap::ValueEnum;
use nodeward_experiments::swarm::SwarmSummary;
use serde_json::{Value, json};

/// A figure of SPEC.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SwarmFigure {
    /// Number of seeds with a finding of a checker
    Clean,
    /// Number of planted bugs that the intended checker finds
    Canary,
    /// The most rounds until memory reached the nodes that it was sent to
    Rounds,
}

impl SwarmFigure {
    /// Formats the number with its context; `wall_ns` is what the run took.
    pub fn value(self, summary: &SwarmSummary, wall_ns: u64) -> Value {
        let measured = match self {
            Self::Rounds => summary.rounds_max(),
            Self::Clean | Self::Canary => summary.findings.len() as u64,
        };
        json!({
            "measured": measured,
            "seeds": summary.cases,
            "failed": summary.findings.keys().collect::<Vec<_>>(),
            "rounds": summary.cases_by_rounds,
            "wall_ns": wall_ns,
        })
    }
}
