//! Arguments of `sim`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use nodeward_model::units;

use super::compare::CompareArgs;
use super::examples;
use super::output::{OutputArgs, ProgressArgs};
use super::parsers::{key_value, virtual_ns};
use super::swarm::SwarmArgs;
use super::sweep::SweepArgs;
use crate::figures::SimFigure;

/// What `sim` is told: a scenario, or one of its own verbs. A file that is called as a verb is
/// given with its directory: `./sweep`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct SimArgs {
    /// What else to do than simulate once.
    #[command(subcommand)]
    pub verb: Option<SimVerb>,
    /// A scenario, by name or by the path of its file
    #[arg(value_name = "SCENARIO", required_unless_present_any = ["list", "figure"])]
    pub scenario: Option<String>,
    /// List the scenarios that come along
    #[arg(long, conflicts_with_all = ["scenario", "set", "seed", "limit", "limit_wall", "trace",
                                      "plot", "check_determinism", "figure"])]
    pub list: bool,
    /// Decides every choice that is left open; the same one is the same run
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    pub seed: u64,
    /// Another value for a key of the scenario, such as machine.latency=100ns or
    /// workload.stream.processes=12; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Simulate so much virtual time [default: as the scenario says]
    #[arg(long, value_name = "TIME", value_parser = virtual_ns)]
    pub limit: Option<u64>,
    /// End after so much time of this machine, with the report so far
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration_ns)]
    pub limit_wall: Option<u64>,
    /// Write what every CPU did into this file, for ui.perfetto.dev or chrome://tracing
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Cut the trace when it is so large
    #[arg(long, value_name = "SIZE", requires = "trace", default_value = "256MiB",
          value_parser = units::parse_bytes)]
    pub trace_max: u64,
    /// Draw locality, bandwidth and migrations over time into this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Run twice and compare traces and reports; exit code 8 if they differ
    #[arg(long, conflicts_with = "limit_wall")]
    pub check_determinism: bool,
    /// Measure one number and print it as one line of JSON: a row of SPEC.md
    #[arg(long, value_name = "NAME",
          conflicts_with_all = ["trace", "plot", "check_determinism", "json"])]
    pub figure: Option<SimFigure>,
    /// When to show progress.
    #[command(flatten)]
    pub progress: ProgressArgs,
    /// How to print the result.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What there is to do besides simulating once.
#[derive(Debug, Subcommand)]
pub enum SimVerb {
    /// Simulate a scenario at every point of a grid of parameters, on all CPUs.
    ///
    /// The same sweep gives the same rows, in the same order, whatever --jobs. The last key changes
    /// fastest, and the seed faster still. What is interrupted goes on with --resume; --shard cuts
    /// a sweep for several machines, and --merge puts their files together.
    #[command(after_long_help = examples::SWEEP)]
    Sweep(Box<SweepArgs>),
    /// Run machines that are drawn from seeds, with checkers that look at each
    ///
    /// A seed decides a machine, what runs on it, what goes wrong, and who moves memory in rounds.
    /// Checkers count for themselves: no page is lost, no node holds more than it has, no contents
    /// are stale, budgets are kept, accounts are true; and once nothing goes wrong any more, memory
    /// comes to where it is wanted. What is found is told with the command that shows it again.
    Swarm(SwarmArgs),
    /// Run the same loads under one balancer after the other, and hold nodeward against the others
    ///
    /// Nothing, the patches of 2012, the kernel's balancing, placing by hand and the engine of
    /// nodeward balance: how local memory becomes, how soon, how many pages are moved for it, what
    /// work is done and what CPU time it takes. A goal that is missed ends it with code 8.
    #[command(after_long_help = examples::COMPARE)]
    Compare(CompareArgs),
}
