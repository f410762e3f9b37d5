//! The argument that bounds how long a move takes.

use clap::Args;
use nodeward_model::units;

use crate::message::help::PACE;

/// The time within which a verb is to end.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct DeadlineArgs {
    /// End within this time, such as 10min; the same command then goes on with what is left
    #[arg(help_heading = PACE, long, value_name = "TIME", value_parser = units::parse_duration_ns,
          conflicts_with = "dry_run")]
    pub deadline: Option<u64>,
}
