//! Arguments of `balance`.

use std::path::PathBuf;

use clap::Args;
use nodeward_model::units;

use super::machine::MachineArgs;
use crate::message::help::{DECIDED, OUTPUT, SIMULATED};
use crate::settings::{BalanceLayer, ProcessArgs};

/// Arguments of `balance`.
#[derive(Debug, Args)]
pub struct BalanceArgs {
    /// The processes to balance.
    #[command(flatten)]
    pub processes: ProcessArgs,
    /// The settings that the command line sets; they take precedence over the settings files.
    #[command(flatten)]
    pub layer: BalanceLayer,
    /// Place single pages of processes that are wider than a node, by access samples of perf. FILE
    /// is a pipe with the output of perf record or perf script; - is standard input
    #[arg(help_heading = DECIDED, long, value_name = "FILE", conflicts_with = "machine")]
    pub samples: Option<PathBuf>,
    /// Print what it would do, and why; change nothing. One round, or --for a time
    #[arg(help_heading = OUTPUT, long)]
    pub dry_run: bool,
    /// Make one round, print all its decisions, and end
    #[arg(help_heading = OUTPUT, long, conflicts_with = "for_time")]
    pub once: bool,
    /// End after this time [default: at Ctrl-C; on a simulated machine: 10s]
    #[arg(help_heading = OUTPUT, long = "for", id = "for_time", value_name = "TIME",
          value_parser = units::parse_duration_ns)]
    pub for_ns: Option<u64>,
    /// Print each round as one line of JSON
    #[arg(help_heading = OUTPUT, long)]
    pub json: bool,
    /// Report only errors and messages that are given once, but no decisions
    #[arg(help_heading = OUTPUT, long, short)]
    pub quiet: bool,
    /// Report each decision, also of a process that had a line in the last minute
    #[arg(help_heading = OUTPUT, long, short, conflicts_with = "quiet")]
    pub verbose: bool,
    /// The machine.
    #[command(flatten)]
    pub machine_args: MachineArgs,
    /// Seed of the run; the same seed gives the same run [default: 0]
    #[arg(help_heading = SIMULATED, long, value_name = "N", requires = "machine")]
    pub seed: Option<u64>,
}
