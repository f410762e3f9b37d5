//! Arguments of all verbs that move memory: limits, output, and the machine.

use clap::Args;

use super::deadline::DeadlineArgs;
use super::machine::SimulatedArgs;
use super::output::{OutputArgs, ProgressArgs};
use crate::message::help::OUTPUT;
use crate::settings::MoveLayer;

/// How memory is moved, and where.
#[derive(Debug, Args)]
pub struct MoveRunArgs {
    /// Workers and limits of the move.
    #[command(flatten)]
    pub layer: MoveLayer,
    /// The time within which it is to end.
    #[command(flatten)]
    pub until: DeadlineArgs,
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
    /// The simulated machine.
    #[command(flatten)]
    pub simulated: SimulatedArgs,
}
