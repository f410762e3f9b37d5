//! Arguments of `sim`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use nodeward_model::units;

use super::compare::CompareArgs;
use super::examples;
use super::output::{OutputArgs, ProgressArgs};
use super::parsers::{key_value, virtual_ns};
use super::scaling::ScalingArgs;
use super::swarm::SwarmArgs;
use super::sweep::SweepArgs;
use crate::figures::SimFigure;

/// Arguments of `sim`: a scenario, or a subcommand. A file with the name of a subcommand is given
/// with its directory: `./sweep`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct SimArgs {
    /// The subcommand, unless one scenario is simulated.
    #[command(subcommand)]
    pub verb: Option<SimVerb>,
    /// A built-in scenario, by name, or the path of a scenario file
    #[arg(value_name = "SCENARIO", required_unless_present_any = ["list", "figure",
                                                                   "of_this_machine"])]
    pub scenario: Option<String>,
    /// List the built-in scenarios
    #[arg(long, conflicts_with_all = ["scenario", "set", "seed", "limit", "limit_wall", "trace",
                                      "plot", "check_determinism", "figure"])]
    pub list: bool,
    /// Print a scenario of this machine to begin with: its nodes, CPUs, memory and distances, the
    /// latencies that are measured now, and a program to be replaced
    #[arg(long, conflicts_with_all = ["scenario", "list", "set", "seed", "limit", "limit_wall",
                                      "trace", "plot", "check_determinism", "figure", "json"])]
    pub of_this_machine: bool,
    /// Let nodeward balance it, and show its last round: homes, and the reason of each decision
    #[arg(long, conflicts_with_all = ["list", "figure", "of_this_machine"])]
    pub balance: bool,
    /// With --balance: decide by the settings under [balance] in this file, not by the defaults
    #[arg(long, value_name = "FILE", requires = "balance")]
    pub settings: Option<PathBuf>,
    /// The seed of every random choice; the same seed gives the same run
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    pub seed: u64,
    /// Change a value of the scenario, such as machine.latency=100ns or
    /// workload.stream.processes=12; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Simulate this much virtual time [default: as the scenario says]
    #[arg(long, value_name = "TIME", value_parser = virtual_ns)]
    pub limit: Option<u64>,
    /// End after this much real time, with the report so far
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration_ns)]
    pub limit_wall: Option<u64>,
    /// Write what every CPU did into this file, for ui.perfetto.dev or chrome://tracing
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Maximum size of the trace; a longer one is cut
    #[arg(long, value_name = "SIZE", requires = "trace", default_value = "256MiB",
          value_parser = units::parse_bytes)]
    pub trace_max: u64,
    /// Draw locality, bandwidth and migrations over time into this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Run twice and compare traces and reports; exit code 8 if they differ
    #[arg(long, conflicts_with = "limit_wall")]
    pub check_determinism: bool,
    /// Measure one figure, as a row of SPEC.md names it, and print it as one line of JSON
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

/// Subcommands of `sim`.
#[derive(Debug, Subcommand)]
pub enum SimVerb {
    /// Simulate a scenario at every point of a grid of parameters, on all CPUs.
    ///
    /// The same sweep gives the same rows in the same order, whatever --jobs is. From row to row
    /// the seed changes fastest, then the last key, and the first key slowest. --resume continues
    /// an interrupted sweep. --shard divides a sweep among several machines, and --merge joins
    /// their files.
    #[command(after_long_help = examples::SWEEP)]
    Sweep(Box<SweepArgs>),
    /// Simulate machines drawn from seeds, with faults, and let checkers look for errors
    ///
    /// A seed determines a machine, its programs, the faults that occur, and the balancer that
    /// moves memory in rounds. Checkers count independently: no page is lost, no node holds more
    /// than its memory, no page has stale contents, budgets are kept, accounts are true; and after
    /// the last fault, memory reaches the nodes that it was sent to. Each finding is printed with
    /// the command that reproduces it.
    Swarm(SwarmArgs),
    /// Run the same loads under each balancer, and compare nodeward with the others
    ///
    /// The balancers are: none, the patches of 2012, the kernel's balancing, placement by hand, and
    /// nodeward balance. For each the table has the share of local accesses and when it was
    /// reached, pages moved, work done, and the balancer's CPU time. Exit code 8 if nodeward misses
    /// a goal.
    #[command(after_long_help = examples::COMPARE)]
    Compare(CompareArgs),
    /// Move memory with more and more workers on machines of 32 to 128 CPUs, and show what stops
    /// more of them
    ///
    /// For each number of workers: the speed, and the CPU time of a page by step. Waits for locks
    /// of the kernel are in unmap and map, waits for memory and link in copy. Beside the copying
    /// threads of one caller stand the speeds that others measured.
    Scaling(ScalingArgs),
}
