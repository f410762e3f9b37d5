//! Arguments of `evacuate`.

use std::path::PathBuf;

use clap::Args;

use super::move_run::MoveRunArgs;
use super::skip::SkipArgs;
use crate::message::help::MEMORY;

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
    #[arg(help_heading = MEMORY, long, conflicts_with_all = ["machine", "skip_shared_above"])]
    pub files: bool,
    /// Also move the page cache of this file, or of all files below this directory; may be repeated
    #[arg(help_heading = MEMORY, long, value_name = "PATH",
          conflicts_with_all = ["machine", "skip_shared_above"])]
    pub file: Vec<PathBuf>,
    /// Memory that stays.
    #[command(flatten)]
    pub skip: SkipArgs,
    /// Limits, output, and the machine.
    #[command(flatten)]
    pub run: MoveRunArgs,
}
