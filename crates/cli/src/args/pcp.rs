//! Arguments of `pcp`.

use clap::{Args, Subcommand};
use nodeward_model::NodeId;

use super::output::OutputArgs;
use super::parsers::interval_ns;
use crate::message::help::OUTPUT;

/// Arguments of `pcp`.
#[derive(Debug, Args)]
pub struct PcpArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: PcpVerb,
}

/// What to do with page lists.
#[derive(Debug, Subcommand)]
pub enum PcpVerb {
    /// Show the page lists of each node, zone and CPU, and who sets their length.
    ///
    /// Needs no privileges. Pages are base pages.
    Show(PcpShowArgs),
    /// Show how page lists change, and how many pages are allocated and freed meanwhile.
    ///
    /// Each round shows the lists that changed, until Ctrl-C. Needs no privileges. No kernel counts
    /// how often CPUs take pages from zones; it counts pages.
    Watch(PcpWatchArgs),
}

/// Which lists.
#[derive(Debug, Args)]
pub struct ListSelectionArgs {
    /// Only lists of this node
    #[arg(long, value_name = "N", value_parser = node_id)]
    pub node: Option<NodeId>,
    /// Only lists of this zone, such as Normal
    #[arg(long, value_name = "ZONE")]
    pub zone: Option<String>,
}

/// Arguments of `pcp show`.
#[derive(Debug, Args)]
pub struct PcpShowArgs {
    /// Which lists.
    #[command(flatten)]
    pub selection: ListSelectionArgs,
    /// How to print them.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `pcp watch`.
#[derive(Debug, Args)]
pub struct PcpWatchArgs {
    /// Time between two looks, 100ms to 3600s
    #[arg(help_heading = OUTPUT, long, value_name = "TIME", default_value = "1s",
          value_parser = interval_ns)]
    pub interval: u64,
    /// End after so many rounds
    #[arg(help_heading = OUTPUT, long, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub rounds: Option<u64>,
    /// Which lists.
    #[command(flatten)]
    pub selection: ListSelectionArgs,
    /// How to print them.
    #[command(flatten)]
    pub output: OutputArgs,
}

fn node_id(text: &str) -> Result<NodeId, String> {
    text.parse().map(NodeId).map_err(|_| "expected the number of a node, such as 0".to_owned())
}
