//! Arguments of `top`.

use clap::{Args, ValueEnum};

use super::agent::AgentArgs;
use super::machine::SimulatedArgs;
use super::parsers::interval_ns;
use crate::message::help::{OUTPUT, PROCESSES};
use crate::settings::MoveLayer;

/// Arguments of `top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Print each refresh as text, instead of a screen
    #[arg(help_heading = OUTPUT, long)]
    pub batch: bool,
    /// End after so many refreshes
    #[arg(help_heading = OUTPUT, long, value_name = "N", requires = "batch",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub iterations: Option<u64>,
    /// Print one JSON object for each refresh
    #[arg(help_heading = OUTPUT, long, requires = "batch")]
    pub json: bool,
    /// Time between two refreshes, 100ms to 3600s
    #[arg(help_heading = OUTPUT, long, value_name = "TIME", default_value = "1s",
          value_parser = interval_ns)]
    pub interval: u64,
    /// What the processes are sorted by
    #[arg(help_heading = PROCESSES, long, value_enum, value_name = "COLUMN",
          default_value_t = SortColumn::Cpu)]
    pub sort: SortColumn,
    /// Show only processes whose pid, name or home has this text
    #[arg(help_heading = PROCESSES, long, value_name = "TEXT", default_value = "",
          hide_default_value = true)]
    pub filter: String,
    /// Workers and limits of moves.
    #[command(flatten)]
    pub layer: MoveLayer,
    /// The agent.
    #[command(flatten)]
    pub by: AgentArgs,
    /// The simulated machine.
    #[command(flatten)]
    pub simulated: SimulatedArgs,
}

/// What rows are sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SortColumn {
    /// CPU time
    #[default]
    Cpu,
    /// Memory
    Memory,
    /// Memory away from home
    Away,
    /// Threads away from home
    Astray,
    /// Pid
    Pid,
    /// Name
    Name,
}

impl SortColumn {
    /// Returns the next one, in turns.
    pub fn next(self) -> Self {
        let all = Self::value_variants();
        let at = all.iter().position(|one| *one == self).unwrap_or(0);
        all[(at + 1) % all.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each column is reached, and the first one again.
    #[test]
    fn columns_come_in_turns() {
        let mut column = SortColumn::default();
        for _ in SortColumn::value_variants() {
            column = column.next();
        }
        assert_eq!(column, SortColumn::default());
    }
}
