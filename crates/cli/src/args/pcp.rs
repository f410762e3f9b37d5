//! Arguments of `pcp`.

use clap::{Args, Subcommand};
use nodeward_model::{NodeId, units};
use nodeward_policy::pcp::{FractionBounds, KERNEL_FRACTION_MIN};

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
    /// Set the length of page lists to what CPUs allocate and free in turn, until Ctrl-C.
    ///
    /// Counts by BPF how far each CPU's allocations run ahead of its frees and back, as the tuner
    /// of 2023 does, and sets vm.percpu_pagelist_high_fraction so that lists hold as much. While
    /// memory is short, and at the end, the value is what it was before; after a kill the next
    /// start or pcp restore sets it. Who sets it meanwhile has the last word. On a kernel that
    /// tunes lists itself (6.7 and newer) it only tells what it would do.
    Tune(PcpTuneArgs),
    /// Tell what a tuner would choose for each CPU, and for the one setting of all.
    ///
    /// Counts for a time and changes nothing. Needs the privilege to load BPF programs.
    Advise(PcpAdviseArgs),
    /// Set the length of page lists back, after pcp tune was killed
    Restore,
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

/// Which fractions may be set.
#[derive(Debug, Args)]
pub struct TuningBoundsArgs {
    /// The smallest fraction: lists hold 1/N of a zone for each of its CPUs together at most
    #[arg(long, value_name = "N", default_value_t = FractionBounds::USUAL.min,
          value_parser = clap::value_parser!(u32).range(i64::from(KERNEL_FRACTION_MIN)..))]
    pub min_fraction: u32,
    /// The largest fraction
    #[arg(long, value_name = "N", default_value_t = FractionBounds::USUAL.max,
          value_parser = clap::value_parser!(u32).range(i64::from(KERNEL_FRACTION_MIN)..))]
    pub max_fraction: u32,
}

/// Arguments of `pcp tune`.
#[derive(Debug, Args)]
pub struct PcpTuneArgs {
    /// Which fractions may be set.
    #[command(flatten)]
    pub bounds: TuningBoundsArgs,
    /// The period in which depths are measured, 100ms to 3600s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval_ns)]
    pub interval: u64,
    /// End after this time
    #[arg(help_heading = OUTPUT, long = "for", value_name = "TIME",
          value_parser = units::parse_duration_ns)]
    pub for_ns: Option<u64>,
    /// Only tell what would be set
    #[arg(help_heading = OUTPUT, long)]
    pub dry_run: bool,
    /// Set it also on a kernel that tunes its lists itself, which stops that
    #[arg(help_heading = OUTPUT, long, conflicts_with = "dry_run")]
    pub anyway: bool,
    /// How to print each period.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `pcp advise`.
#[derive(Debug, Args)]
pub struct PcpAdviseArgs {
    /// Which fractions may be advised.
    #[command(flatten)]
    pub bounds: TuningBoundsArgs,
    /// Count for this long, in periods of a second
    #[arg(help_heading = OUTPUT, long = "for", value_name = "TIME", default_value = "10s",
          value_parser = interval_ns)]
    pub for_ns: u64,
    /// How to print it.
    #[command(flatten)]
    pub output: OutputArgs,
}

fn node_id(text: &str) -> Result<NodeId, String> {
    text.parse().map(NodeId).map_err(|_| "expected the number of a node, such as 0".to_owned())
}
