//! Arguments of `placement`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use nodeward_model::{MappingKind, Name};

use super::agent::AgentArgs;
use super::machine::SimulatedArgs;
use super::move_run::MoveRunArgs;
use super::output::OutputArgs;
use super::parsers::choice_parser;
use super::skip::SkipArgs;
use crate::message::help::{MEMORY, OUTPUT, PROCESSES};
use crate::settings::name_parser;

/// Arguments of `placement`.
#[derive(Debug, Args)]
pub struct PlacementArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: PlacementVerb,
}

/// What to do with placements.
#[derive(Debug, Subcommand)]
pub enum PlacementVerb {
    /// Write where the memory and the threads of processes are into FILE. Changes nothing else.
    Save(PlacementSaveArgs),
    /// Move memory to where FILE says that it was, after a restart of the programs.
    ///
    /// The processes are those of FILE, in its order. A mapping is found again by its kind, path,
    /// offset, permissions and size, and among several that are alike by its place among them.
    /// Memory that is not there yet does not move; restore again when the program has touched it.
    Restore(PlacementRestoreArgs),
}

/// The processes and memory of a placement.
#[derive(Debug, Args)]
pub struct PlacedArgs {
    /// Process ids (none with --name or --cgroup), then the file
    #[arg(required = true, allow_negative_numbers = true, value_name = "PID... FILE")]
    pub operands: Vec<OsString>,
    /// Processes of this name (column COMMAND of ps), in order of their ids; may be repeated
    #[arg(help_heading = PROCESSES, long, value_name = "NAME", conflicts_with = "machine",
          value_parser = name_parser())]
    pub name: Vec<Name>,
    /// Processes of this control group and of those below it; may be repeated
    #[arg(help_heading = PROCESSES, long, value_name = "GROUP", conflicts_with = "machine")]
    pub cgroup: Vec<PathBuf>,
    /// Only these kinds of memory [default: all but file]
    #[arg(help_heading = MEMORY, long, value_delimiter = ',', value_name = "KIND",
          value_parser = choice_parser(MappingKind::ALL, MappingKind::name))]
    pub only: Vec<MappingKind>,
    /// The agent.
    #[command(flatten)]
    pub by: AgentArgs,
}

/// Arguments of `placement save`.
#[derive(Debug, Args)]
#[command(override_usage = "nodeward placement save [OPTIONS] PID... FILE")]
pub struct PlacementSaveArgs {
    /// What is saved, and where.
    #[command(flatten)]
    pub placed: PlacedArgs,
    /// How to print the result.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The simulated machine.
    #[command(flatten)]
    pub simulated: SimulatedArgs,
}

/// Arguments of `placement restore`.
#[derive(Debug, Args)]
#[command(override_usage = "nodeward placement restore [OPTIONS] PID... FILE")]
pub struct PlacementRestoreArgs {
    /// What is restored, and from where.
    #[command(flatten)]
    pub placed: PlacedArgs,
    /// Also bring threads to where they ran, by their names; those that were bound to CPUs are
    /// bound again
    #[arg(help_heading = PROCESSES, long)]
    pub threads: bool,
    /// Restore also if the processes run other programs than those of FILE
    #[arg(help_heading = OUTPUT, long)]
    pub force: bool,
    /// Memory that stays.
    #[command(flatten)]
    pub skip: SkipArgs,
    /// Limits, output, and the machine.
    #[command(flatten)]
    pub run: MoveRunArgs,
}
