//! Arguments of `report`.

use std::path::PathBuf;

use clap::Args;
use nodeward_model::{Pid, units};

use super::machine::SimulatedArgs;
use super::output::ProgressArgs;
use crate::message::help::{OUTPUT, PROCESSES};

/// Arguments of `report`.
#[derive(Debug, Args)]
#[command(override_usage = "nodeward report [OPTIONS] PID --for TIME -o FILE
       nodeward report [OPTIONS] --system --for TIME -o FILE")]
pub struct ReportArgs {
    /// The process to watch
    #[arg(value_name = "PID", required_unless_present = "system", allow_negative_numbers = true)]
    pub pid: Option<Pid>,
    /// Watch all processes and the whole machine
    #[arg(help_heading = PROCESSES, long, conflicts_with = "pid")]
    pub system: bool,
    /// Watch for this long, such as 30s or 1h
    #[arg(help_heading = OUTPUT, long = "for", id = "for_time", value_name = "TIME",
          required = true, value_parser = units::parse_duration_ns)]
    pub for_ns: u64,
    /// Write the page into this file; - is standard output
    #[arg(help_heading = OUTPUT, long, short, value_name = "FILE")]
    pub output: PathBuf,
    /// Write what was seen as JSON instead of a page
    #[arg(help_heading = OUTPUT, long)]
    pub json: bool,
    /// When to show progress.
    #[command(flatten)]
    pub progress: ProgressArgs,
    /// The simulated machine.
    #[command(flatten)]
    pub simulated: SimulatedArgs,
}
