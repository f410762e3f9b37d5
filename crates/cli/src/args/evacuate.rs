//! Arguments of `evacuate`.

use std::path::PathBuf;

use clap::Args;

use super::machine::MachineArgs;
use super::output::{OutputArgs, ProgressArgs};
use crate::message::help::{MEMORY, OUTPUT, SIMULATED};
use crate::settings::MoveLayer;

/// Arguments of `evacuate`.
#[derive(Debug, Args)]
pub struct EvacuateArgs {
    /// The nodes to empty
    #[arg(value_name = "NODES")]
    pub nodes: String,
    /// The nodes that may take the memory [default: all others with memory and room]
    #[arg(value_name = "TO")]
    pub to: Option<String>,
    /// Also move the page cache of files that processes map or have open
    #[arg(help_heading = MEMORY, long, conflicts_with = "machine")]
    pub files: bool,
    /// Also move the page cache of this file, or of all files below this directory; may be repeated
    #[arg(help_heading = MEMORY, long, value_name = "PATH", conflicts_with = "machine")]
    pub file: Vec<PathBuf>,
    /// Workers and limits of the move.
    #[command(flatten)]
    pub layer: MoveLayer,
    /// Print what would move, and what would stay and why; change nothing
    #[arg(help_heading = OUTPUT, long)]
    pub dry_run: bool,
    /// Write no ledger; the move then cannot be undone
    #[arg(help_heading = OUTPUT, long)]
    pub no_ledger: bool,
    /// When to show progress.
    #[command(flatten)]
    pub progress: ProgressArgs,
    /// How to print the result.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The machine.
    #[command(flatten)]
    pub machine_args: MachineArgs,
    /// Seed of the simulated run; the same seed gives the same run [default: 0]
    #[arg(help_heading = SIMULATED, long, value_name = "N", requires = "machine")]
    pub seed: Option<u64>,
}
