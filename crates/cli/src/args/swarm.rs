//! Arguments of `sim swarm`.

use clap::Args;
use nodeward_scenario::Bug;

use super::output::{OutputArgs, ProgressArgs};
use super::parsers::choice_parser;
use crate::figures::SwarmFigure;

/// What `sim swarm` is told.
#[derive(Debug, Args)]
pub struct SwarmArgs {
    /// How many seeds to run
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub seeds: u64,
    /// The first of them
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub from: u64,
    /// Run this one only
    #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "from"])]
    pub seed: Option<u64>,
    /// How many at a time [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Print the scenarios, and what would be done with them, instead of running them
    #[arg(long, conflicts_with_all = ["jobs", "json", "figure"])]
    pub print: bool,
    /// Plant a bug in each simulated kernel, to see that a checker finds it
    #[arg(long, value_name = "BUG", conflicts_with = "figure",
          value_parser = choice_parser(Bug::ALL.map(|(_, bug)| bug), bug_name))]
    pub bug: Option<Bug>,
    /// Measure one number and print it as one line of JSON: a row of SPEC.md
    #[arg(long, value_name = "NAME", conflicts_with = "json")]
    pub figure: Option<SwarmFigure>,
    /// When to show progress.
    #[command(flatten)]
    pub progress: ProgressArgs,
    /// How to print the result.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Returns the name of a bug in scenarios.
pub fn bug_name(bug: Bug) -> &'static str {
    Bug::ALL.into_iter().find(|(_, other)| *other == bug).map_or("", |(name, _)| name)
}
