//! Arguments of `watch`.

use std::path::PathBuf;

use clap::Args;
use nodeward_model::{Pid, units};

use super::parsers::interval_ns;
use crate::message::help::{OUTPUT, PROCESSES};

/// Arguments of `watch`.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Count only calls of these processes [default: all calls on this machine]
    #[arg(value_name = "PID", allow_negative_numbers = true)]
    pub pids: Vec<Pid>,
    /// Count all calls on this machine
    #[arg(help_heading = PROCESSES, long, conflicts_with = "pids")]
    pub system: bool,
    /// Time of a round, 100ms to 3600s
    #[arg(help_heading = OUTPUT, long, value_name = "TIME", default_value = "1s",
          value_parser = interval_ns)]
    pub interval: u64,
    /// Watch for this long, such as 30s or 1h
    #[arg(help_heading = OUTPUT, long = "for", id = "for_time", value_name = "TIME",
          value_parser = units::parse_duration_ns)]
    pub for_ns: Option<u64>,
    /// End after so many rounds
    #[arg(help_heading = OUTPUT, long, value_name = "N", conflicts_with = "for_time",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub rounds: Option<u64>,
    /// Also write rounds as counters into this file, which ui.perfetto.dev opens
    #[arg(help_heading = OUTPUT, long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
    /// Print one JSON object for each round
    #[arg(help_heading = OUTPUT, long)]
    pub json: bool,
}
