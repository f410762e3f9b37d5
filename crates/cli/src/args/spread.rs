//! Arguments of `spread`.

use std::path::PathBuf;

use clap::Args;
use nodeward_model::{MappingKind, Name, units};

use super::agent::AgentArgs;
use super::move_run::MoveRunArgs;
use super::parsers::choice_parser;
use super::skip::SkipArgs;
use crate::message::help::{MEMORY, PROCESSES};
use crate::settings::name_parser;

/// Arguments of `spread`.
#[derive(Debug, Args)]
#[command(override_usage = "nodeward spread [OPTIONS] PID... NODES")]
pub struct SpreadArgs {
    /// Process ids (none with --name or --cgroup), then the nodes
    #[arg(required = true, allow_negative_numbers = true, value_name = "PID... NODES")]
    pub operands: Vec<String>,
    /// Spread the memory of processes of this name (column COMMAND of ps); may be repeated
    #[arg(help_heading = PROCESSES, long, value_name = "NAME", conflicts_with = "machine",
          value_parser = name_parser())]
    pub name: Vec<Name>,
    /// Spread the memory of processes of this control group and of those below it; may be repeated
    #[arg(help_heading = PROCESSES, long, value_name = "GROUP", conflicts_with = "machine")]
    pub cgroup: Vec<PathBuf>,
    /// Spread only these kinds of memory [default: all but file]
    #[arg(help_heading = MEMORY, long, value_delimiter = ',', value_name = "KIND",
          value_parser = choice_parser(MappingKind::ALL, MappingKind::name))]
    pub only: Vec<MappingKind>,
    /// How much of the memory each node gets, in the order of NODES: 3,1 is three quarters and one
    /// [default: equal]
    #[arg(help_heading = MEMORY, long, value_delimiter = ',', value_name = "N,...")]
    pub weights: Vec<u32>,
    /// How much memory stays together, a multiple of the page size, such as 2MiB; at least a huge
    /// page where those are used
    #[arg(help_heading = MEMORY, long, value_name = "SIZE", default_value = "2MiB",
          value_parser = units::parse_bytes)]
    pub block: u64,
    /// Memory that stays.
    #[command(flatten)]
    pub skip: SkipArgs,
    /// Limits, output, and the machine.
    #[command(flatten)]
    pub run: MoveRunArgs,
    /// The agent.
    #[command(flatten)]
    pub by: AgentArgs,
}
