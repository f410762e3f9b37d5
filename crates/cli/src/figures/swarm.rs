//! The figures of `sim swarm`.

use clap::ValueEnum;
use nodeward_experiments::swarm::SwarmSummary;
use serde_json::{Value, json};

/// One number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SwarmFigure {
    /// Seeds on whose machines a checker finds something
    Clean,
    /// Planted bugs that are found, by the checker that they are for
    Canary,
    /// The most rounds until memory is where it is wanted
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
