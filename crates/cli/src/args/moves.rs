//! Arguments of `move`.

use std::path::PathBuf;

use clap::Args;
use nodeward_model::{MappingKind, Name, Range, units};

use super::agent::AgentArgs;
use super::move_run::MoveRunArgs;
use super::parsers::choice_parser;
use super::skip::SkipArgs;
use crate::message::help::{MEMORY, OUTPUT, PACE, PROCESSES};
use crate::settings::name_parser;

/// Arguments of `move`.
#[derive(Debug, Args)]
#[command(override_usage = "nodeward move [OPTIONS] PID... FROM TO
       nodeward move [OPTIONS] PID [FROM] TO --addresses FILE
       nodeward move [OPTIONS] PID --hot SOURCE
       nodeward move [OPTIONS] --file PATH... [FROM] TO")]
pub struct MoveArgs {
    /// Process ids (none with --name, --cgroup or --file), then nodes
    #[arg(required = true, allow_negative_numbers = true, value_name = "PID... FROM TO")]
    pub operands: Vec<String>,
    /// Move processes of this name (column COMMAND of ps); may be repeated
    #[arg(help_heading = PROCESSES, long, value_name = "NAME",
          conflicts_with = "machine", value_parser = name_parser())]
    pub name: Vec<Name>,
    /// Move processes of this control group and of those below it; may be repeated
    #[arg(help_heading = PROCESSES, long, value_name = "GROUP", conflicts_with = "machine")]
    pub cgroup: Vec<PathBuf>,
    /// Instead of processes: move the page cache of this file, or of all files below this
    /// directory; may be repeated
    #[arg(help_heading = MEMORY, long, value_name = "PATH",
          conflicts_with_all = ["name", "cgroup", "only", "exclude", "range", "addresses", "hot",
                                "skip_shared_above", "skip_pinned", "no_ledger", "machine",
                                "agent"])]
    pub file: Vec<PathBuf>,
    /// Move only these kinds of memory
    #[arg(help_heading = MEMORY, long, value_delimiter = ',', value_name = "KIND",
          value_parser = choice_parser(MappingKind::ALL, MappingKind::name))]
    pub only: Vec<MappingKind>,
    /// Move all but these kinds of memory
    #[arg(help_heading = MEMORY, long, value_delimiter = ',', value_name = "KIND",
          hide_possible_values = true,
          value_parser = choice_parser(MappingKind::ALL, MappingKind::name),
          conflicts_with = "only")]
    pub exclude: Vec<MappingKind>,
    /// Move only addresses in this range, in hexadecimal as in /proc/PID/maps; may be repeated
    #[arg(help_heading = MEMORY, long, value_parser = parse_range, value_name = "START-END")]
    pub range: Vec<Range>,
    /// Move only the pages that this file lists: a hexadecimal address a line, or 8 bytes each,
    /// little-endian; - is standard input
    #[arg(help_heading = MEMORY, long, value_name = "FILE",
          conflicts_with_all = ["name", "cgroup", "only", "exclude", "range", "agent"])]
    pub addresses: Option<PathBuf>,
    /// The addresses of --addresses are physical
    #[arg(help_heading = MEMORY, long, requires = "addresses", conflicts_with = "machine")]
    pub physical: bool,
    /// The hot pages to move.
    #[command(flatten)]
    pub hot_pages: HotArgs,
    /// Then collapse base pages there into huge pages, where 2 MiB are whole
    #[arg(help_heading = OUTPUT, long,
          conflicts_with_all = ["file", "addresses", "hot", "machine", "agent"])]
    pub collapse: bool,
    /// Split huge pages that would be held for longer than --stall
    #[arg(help_heading = PACE, long, conflicts_with_all = ["file", "machine", "agent"])]
    pub split_huge: bool,
    /// Memory that stays.
    #[command(flatten)]
    pub skip: SkipArgs,
    /// The agent.
    #[command(flatten)]
    pub by: AgentArgs,
    /// Limits, output, and the machine.
    #[command(flatten)]
    pub run: MoveRunArgs,
}

/// The hot pages that `move` moves.
#[derive(Debug, Args)]
#[command(next_help_heading = MEMORY)]
pub struct HotArgs {
    /// Move only pages with so many accesses that the move pays, each to the node that uses it
    /// most. SOURCE watches the process for 2s, or as registers:TIME says: auto (the first that
    /// works here), registers, soft-dirty, faults, damon. Or it is a perf.data, the output of perf
    /// script, or a file of lines ADDRESS NODE COUNT (- is standard input)
    #[arg(long, value_name = "SOURCE",
          conflicts_with_all = ["name", "cgroup", "only", "exclude", "range", "addresses",
                                "machine", "agent"])]
    pub hot: Option<String>,
    /// Cache misses per count [default: 1; damon 64, soft-dirty 1000]
    #[arg(long, value_name = "N", requires = "hot")]
    pub misses_per_count: Option<u64>,
    /// Move at most this much memory, the largest gain first, such as 1GiB
    #[arg(long, value_name = "SIZE", requires = "hot", value_parser = units::parse_bytes)]
    pub hot_max: Option<u64>,
}

fn parse_range(text: &str) -> Result<Range, String> {
    let wrong = || "expected START-END in hexadecimal, such as 7f0000000000-7f0000200000";
    let number = |text: &str| {
        u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).map_err(|_| wrong())
    };
    let (start, end) = text.split_once('-').ok_or_else(wrong)?;
    let (start, end) = (number(start)?, number(end)?);
    match start < end {
        true => Ok(Range::new(start, end)),
        false => Err("END is not above START".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_hexadecimal_and_not_empty() {
        assert_eq!(parse_range("1000-0x2000"), Ok(Range::new(0x1000, 0x2000)));
        for text in ["", "1000", "2000-1000", "1000-1000", "x-y", "-1000"] {
            assert!(parse_range(text).is_err(), "{text}");
        }
    }
}
