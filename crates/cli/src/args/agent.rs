//! The argument that lets the agent do what a verb needs privileges for.

use std::path::PathBuf;

use clap::Args;
use nodeward_agent::socket::DEFAULT_PATH;

use crate::message::help::OUTPUT;

/// Whether the agent does it.
#[derive(Debug, Default, Args)]
pub struct AgentArgs {
    /// Let the agent (nodeward balance) do it; that needs no privileges
    #[arg(help_heading = OUTPUT, long, value_name = "SOCKET", num_args = 0..=1,
          require_equals = true, default_missing_value = DEFAULT_PATH, conflicts_with = "machine")]
    pub agent: Option<PathBuf>,
}
