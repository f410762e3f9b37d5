//! Arguments of `ledger` and `undo`, which name moves of the past.

use clap::Args;
use nodeward_records::ledger::OperationId;

use super::output::{OutputArgs, ProgressArgs};
use crate::message::help::OUTPUT;
use crate::settings::MoveLayer;

/// What `ledger` is told.
#[derive(Debug, Args)]
pub struct LedgerArgs {
    /// The operation to show; all of them, in short, if none is given
    #[arg(value_name = "ID")]
    pub id: Option<OperationId>,
    /// List every run of pages, too
    #[arg(long, requires = "id")]
    pub runs: bool,
    /// How to print it.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What `undo` is told.
#[derive(Debug, Args)]
pub struct UndoArgs {
    /// The operation to take back, as `nodeward ledger` numbers it
    #[arg(value_name = "ID")]
    pub id: OperationId,
    /// How pages are moved.
    #[command(flatten)]
    pub layer: MoveLayer,
    /// Say what would be done and why, and do nothing
    #[arg(help_heading = OUTPUT, long)]
    pub dry_run: bool,
    /// When to show progress.
    #[command(flatten)]
    pub progress: ProgressArgs,
    /// How to print the result.
    #[command(flatten)]
    pub output: OutputArgs,
}
