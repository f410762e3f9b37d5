//! Arguments of `show`.

use std::path::PathBuf;

use clap::Args;
use nodeward_model::{Pid, Synthetic, units};

use super::machine::MachineArgs;
use super::output::OutputArgs;
use crate::message::help::{COUNTING, ELSEWHERE, OUTPUT};

/// What `show` is told.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Processes to look at
    #[arg(value_name = "PID")]
    pub pids: Vec<Pid>,
    /// The machine whose sys and proc lie in this directory; its processes are not shown
    #[arg(help_heading = ELSEWHERE, long, value_name = "DIR",
          conflicts_with_all = ["pids", "machine"])]
    pub root: Option<PathBuf>,
    /// The machine in a file that lstopo wrote (lstopo machine.xml)
    #[arg(help_heading = ELSEWHERE, long, value_name = "FILE",
          conflicts_with_all = ["pids", "root", "machine"])]
    pub hwloc: Option<PathBuf>,
    /// A machine described in one line, such as '2n 4c 2t 16GiB + 1n 128GiB dist:10/21'
    #[arg(help_heading = ELSEWHERE, long, value_name = "LINE",
          conflicts_with_all = ["pids", "root", "hwloc", "machine"])]
    pub synthetic: Option<Synthetic>,
    /// Count every page instead of sampling
    #[arg(help_heading = COUNTING, long, requires = "pids")]
    pub exact: bool,
    /// Sample at least this many pages of each kind
    #[arg(help_heading = COUNTING, long, value_name = "N", requires = "pids",
          conflicts_with = "exact", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub samples: Option<u64>,
    /// Decide by this number which pages are sampled, to look at the same ones again, and what is
    /// left open on a simulated machine
    #[arg(help_heading = COUNTING, long, value_name = "N")]
    pub seed: Option<u64>,
    /// Watch CPU time for this long before ranking, such as 1s [default: 100ms]
    #[arg(help_heading = COUNTING, long, value_name = "TIME",
          value_parser = units::parse_duration_ns, conflicts_with_all = ["pids", "machine"])]
    pub window: Option<u64>,
    /// Only the machine, without its processes
    #[arg(help_heading = OUTPUT, long, conflicts_with = "pids")]
    pub topology: bool,
    /// Print what `numactl -H` prints and nothing else
    #[arg(help_heading = OUTPUT, long, short = 'H',
          conflicts_with_all = ["pids", "window", "json"])]
    pub hardware: bool,
    /// How to print the result.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The machine.
    #[command(flatten)]
    pub machine_args: MachineArgs,
}
