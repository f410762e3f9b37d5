//! Arguments of `sim swarm`.

use clap::Args;
use nodeward_scenario::Bug;

use super::output::{OutputArgs, ProgressArgs};
use super::parsers::{choice_parser, seed, seed_count};
use super::simulation_jobs::SimulationJobs;
use crate::figures::SwarmFigure;

/// Arguments of `sim swarm`.
#[derive(Debug, Args)]
pub struct SwarmArgs {
    /// Number of seeds to run
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = seed_count())]
    pub seeds: u64,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = seed())]
    pub from: u64,
    /// Run only this seed
    #[arg(long, value_name = "N", value_parser = seed(), conflicts_with_all = ["seeds", "from"])]
    pub seed: Option<u64>,
    /// How many simulations run at the same time.
    #[command(flatten)]
    pub jobs: SimulationJobs,
    /// Print the scenarios and the planned rounds; run nothing
    #[arg(long, conflicts_with_all = ["jobs", "json", "figure"])]
    pub print: bool,
    /// Plant this bug in each simulated kernel, to test that a checker finds it
    #[arg(long, value_name = "BUG", conflicts_with = "figure",
          value_parser = choice_parser(Bug::ALL.map(|(_, bug)| bug), bug_name))]
    pub bug: Option<Bug>,
    /// Measure one figure, as a row of SPEC.md names it, and print it as one line of JSON
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
