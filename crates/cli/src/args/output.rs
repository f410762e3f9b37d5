//! Arguments about output: the form of results, and progress.

use clap::Args;

use crate::message::help::OUTPUT;
use crate::progress::ProgressMode;

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = OUTPUT)]
pub struct OutputArgs {
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// When progress is shown.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = OUTPUT)]
pub struct ProgressArgs {
    /// When to show progress on standard error; without a terminal it is printed line by line
    #[arg(long, value_enum, default_value_t = ProgressMode::Auto, value_name = "WHEN")]
    progress: ProgressMode,
    /// The same as --progress never
    #[arg(long, short, conflicts_with = "progress")]
    quiet: bool,
}

impl ProgressArgs {
    /// Returns when to show progress.
    pub fn mode(self) -> ProgressMode {
        if self.quiet { ProgressMode::Never } else { self.progress }
    }
}
