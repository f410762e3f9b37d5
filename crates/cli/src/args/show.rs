//! Arguments of `show`.

use std::path::PathBuf;

use clap::Args;
use nodeward_model::{Pid, Synthetic, units};

use super::agent::AgentArgs;
use super::machine::MachineArgs;
use super::output::OutputArgs;
use crate::message::help::{COUNTING, ELSEWHERE, OUTPUT};

/// Arguments of `show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Processes to show
    #[arg(value_name = "PID")]
    pub pids: Vec<Pid>,
    /// Show the machine whose /sys and /proc are copied into this directory, without its processes
    #[arg(help_heading = ELSEWHERE, long, value_name = "DIR",
          conflicts_with_all = ["pids", "machine"])]
    pub root: Option<PathBuf>,
    /// Show the machine in a file written by lstopo (lstopo machine.xml)
    #[arg(help_heading = ELSEWHERE, long, value_name = "FILE",
          conflicts_with_all = ["pids", "root", "machine"])]
    pub hwloc: Option<PathBuf>,
    /// Show a machine described in one line, such as '2n 4c 2t 16GiB + 1n 128GiB dist:10/21'
    #[arg(help_heading = ELSEWHERE, long, value_name = "LINE",
          conflicts_with_all = ["pids", "root", "hwloc", "machine"])]
    pub synthetic: Option<Synthetic>,
    /// Count every page instead of sampling
    #[arg(help_heading = COUNTING, long, requires = "pids")]
    pub exact: bool,
    /// Sample at least this many pages of each kind of mapping
    #[arg(help_heading = COUNTING, long, value_name = "N", requires = "pids",
          conflicts_with = "exact", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub samples: Option<u64>,
    /// The seed that selects the pages to sample, and the seed of a simulated machine: the same
    /// seed selects the same pages
    #[arg(help_heading = COUNTING, long, value_name = "N")]
    pub seed: Option<u64>,
    /// Measure CPU time for this long before ranking, such as 1s [default: 100ms]
    #[arg(help_heading = COUNTING, long, value_name = "TIME",
          value_parser = units::parse_duration_ns, conflicts_with_all = ["pids", "machine"])]
    pub window: Option<u64>,
    /// Show only the machine, without its processes
    #[arg(help_heading = OUTPUT, long, conflicts_with = "pids")]
    pub topology: bool,
    /// Show network interfaces, disks and graphics processors with the nodes that they are attached
    /// to
    #[arg(help_heading = OUTPUT, long,
          conflicts_with_all = ["pids", "root", "hwloc", "synthetic", "window", "topology",
                                "machine", "agent"])]
    pub devices: bool,
    /// Print only what numactl -H prints
    #[arg(help_heading = OUTPUT, long, short = 'H',
          conflicts_with_all = ["pids", "window", "json"])]
    pub hardware: bool,
    /// How to print the result.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The agent.
    #[command(flatten)]
    pub by: AgentArgs,
    /// The machine.
    #[command(flatten)]
    pub machine_args: MachineArgs,
}
