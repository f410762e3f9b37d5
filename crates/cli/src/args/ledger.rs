//! Arguments of `ledger` and `undo`, which name past moves.

use std::path::PathBuf;

use clap::Args;
use nodeward_agent::socket::DEFAULT_PATH;
use nodeward_records::ledger::OperationId;

use super::deadline::DeadlineArgs;
use super::output::{OutputArgs, ProgressArgs};
use super::skip::SkipArgs;
use crate::message::help::OUTPUT;
use crate::settings::MoveLayer;

/// Arguments of `ledger`.
#[derive(Debug, Args)]
pub struct LedgerArgs {
    /// The number of the move to show; if none is given, all are listed
    #[arg(value_name = "ID")]
    pub id: Option<OperationId>,
    /// Also list every run of pages of the move
    #[arg(long, requires = "id")]
    pub runs: bool,
    /// How to print it.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `undo`.
#[derive(Debug, Args)]
pub struct UndoArgs {
    /// The number of the move to take back, as nodeward ledger lists it; with --agent, as the move
    /// told it
    #[arg(value_name = "ID")]
    pub id: OperationId,
    /// Let the agent (nodeward balance) take back what it moved; that needs no privileges
    #[arg(help_heading = OUTPUT, long, value_name = "SOCKET", num_args = 0..=1,
          require_equals = true, default_missing_value = DEFAULT_PATH)]
    pub agent: Option<PathBuf>,
    /// Memory that stays where it is now.
    #[command(flatten)]
    pub skip: SkipArgs,
    /// Workers and limits of the move.
    #[command(flatten)]
    pub layer: MoveLayer,
    /// The time within which it is to end.
    #[command(flatten)]
    pub until: DeadlineArgs,
    /// Print what would be moved back, and what would stay and why; change nothing
    #[arg(help_heading = OUTPUT, long)]
    pub dry_run: bool,
    /// When to show progress.
    #[command(flatten)]
    pub progress: ProgressArgs,
    /// How to print the result.
    #[command(flatten)]
    pub output: OutputArgs,
}
