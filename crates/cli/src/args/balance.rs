//! Arguments of `balance`.

use std::path::PathBuf;

use clap::Args;
use nodeward_model::units;

use super::machine::MachineArgs;
use crate::message::help::{DECIDED, OUTPUT, SIMULATED};
use crate::settings::{BalanceLayer, ProcessArgs};

/// What `balance` is told.
#[derive(Debug, Args)]
pub struct BalanceArgs {
    /// Which processes.
    #[command(flatten)]
    pub processes: ProcessArgs,
    /// What it does, over the settings files.
    #[command(flatten)]
    pub layer: BalanceLayer,
    /// Place the pages of processes that are wider than a node one by one, by what perf samples
    /// meanwhile: a pipe with the output of perf script or perf record; - is standard input
    #[arg(help_heading = DECIDED, long, value_name = "FILE", conflicts_with = "machine")]
    pub samples: Option<PathBuf>,
    /// Say what would be done and why, and do nothing; one round, unless --for says more
    #[arg(help_heading = OUTPUT, long)]
    pub dry_run: bool,
    /// Make one round, show all of it, and end
    #[arg(help_heading = OUTPUT, long, conflicts_with = "for_time")]
    pub once: bool,
    /// End after so long, such as 10s [default on a simulated machine: 10s]
    #[arg(help_heading = OUTPUT, long = "for", id = "for_time", value_name = "TIME",
          value_parser = units::parse_duration_ns)]
    pub for_ns: Option<u64>,
    /// Print each round as one line of JSON
    #[arg(help_heading = OUTPUT, long)]
    pub json: bool,
    /// Tell errors only, not what is decided
    #[arg(help_heading = OUTPUT, long, short)]
    pub quiet: bool,
    /// The machine.
    #[command(flatten)]
    pub machine_args: MachineArgs,
    /// Decide by this number what is left open on a simulated machine
    #[arg(help_heading = SIMULATED, long, value_name = "N", requires = "machine")]
    pub seed: Option<u64>,
}
