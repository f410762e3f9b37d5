//! The command line, as it was typed. Nothing here looks at the machine.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use nodeward_model::{MappingKind, Pid, Range, SkipReason, Synthetic, units};

use crate::exit::Exit;
use crate::settings::MoveLayer;

/// Keeps memory next to the threads that use it.
#[derive(Debug, Parser)]
#[command(name = "nodeward", version, max_term_width = 100)]
#[command(after_long_help = Exit::table())]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
    /// Read settings from this file instead of ~/.config/nodeward/config.toml
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Move the memory of running processes from nodes to nodes.
    ///
    /// FROM and TO are node strings as numactl takes them: 0,2 or 0-3 or all or !1 or +0. Several
    /// nodes keep their relative position: 0,1 to 2,3 moves 0 to 2 and 1 to 3. The process keeps
    /// running; every page ends as moved, already there, or skipped with a reason.
    ///
    /// With --file: the page cache of files, from all other nodes (or from FROM) to TO. What is not
    /// in memory is not read.
    Move(MoveArgs),
    /// Show where the memory of processes is, by kind of mapping.
    ///
    /// Without a PID: the machine, and its processes ranked by memory away from the CPUs they run
    /// on. Pages are sampled until every share is known to 2 points, which takes a few milliseconds
    /// whatever the size of the process.
    Show(ShowArgs),
    /// Print this machine's topology files as one text, for a bug report or a test
    Capture,
    /// Say what works here, what is missing, and what would fix it
    Doctor(OutputArgs),
    /// Explain why pages stayed behind: what a reason means, why the kernel does it, what to do
    Explain(ExplainArgs),
    /// Write the manual pages into a directory
    Man {
        /// Where to; it is made if it is missing
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
    /// Print completions for a shell, to be sourced by it
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// What `explain` is told.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Reasons as the account of a move names them; all of them if none is given
    #[arg(value_name = "REASON", value_parser = named(SkipReason::ALL, SkipReason::name))]
    pub reasons: Vec<SkipReason>,
    /// How to print them.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct OutputArgs {
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// What `move` is told.
#[derive(Debug, Args)]
#[command(override_usage = "nodeward move [OPTIONS] PID... FROM TO
       nodeward move [OPTIONS] --file PATH... [FROM] TO")]
pub struct MoveArgs {
    /// Process ids (none with --name, --cgroup or --file), then the nodes to leave, then those to
    /// go to
    #[arg(required = true, allow_negative_numbers = true, value_name = "PID... FROM TO")]
    pub words: Vec<String>,
    /// Instead of processes: what is in memory of this file, or of the files below this directory;
    /// may be repeated
    #[arg(long, value_name = "PATH",
          conflicts_with_all = ["name", "cgroup", "only", "exclude", "range"])]
    pub file: Vec<PathBuf>,
    /// Processes of this name, as ps shows it in its column COMMAND
    #[arg(long, value_name = "NAME")]
    pub name: Vec<String>,
    /// Processes of this control group and those below it
    #[arg(long, value_name = "GROUP")]
    pub cgroup: Vec<PathBuf>,
    /// How the move is done.
    #[command(flatten)]
    pub how: MoveLayer,
    /// Only these kinds of memory
    #[arg(long, value_delimiter = ',', value_name = "KIND",
          value_parser = named(MappingKind::ALL, MappingKind::name))]
    pub only: Vec<MappingKind>,
    /// All but these kinds of memory
    #[arg(long, value_delimiter = ',', value_name = "KIND",
          value_parser = named(MappingKind::ALL, MappingKind::name),
          conflicts_with = "only")]
    pub exclude: Vec<MappingKind>,
    /// Only addresses in this range, in hexadecimal as in /proc/PID/maps; may be repeated
    #[arg(long, value_parser = parse_range, value_name = "START-END")]
    pub range: Vec<Range>,
    /// Say what would be done and why, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// When to show progress on standard error; without a terminal it is shown line by line
    #[arg(long, value_enum, default_value_t = When::Auto, value_name = "WHEN")]
    pub progress: When,
    /// The same as --progress never
    #[arg(long, short, conflicts_with = "progress")]
    pub quiet: bool,
    /// How to print the result.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What `show` is told.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Processes to look at
    #[arg(value_name = "PID")]
    pub pids: Vec<Pid>,
    /// Only the machine, without its processes
    #[arg(long, conflicts_with = "pids")]
    pub topology: bool,
    /// The machine whose sys and proc lie in this directory; its processes are not shown
    #[arg(long, value_name = "DIR", conflicts_with = "pids")]
    pub root: Option<PathBuf>,
    /// The machine in a file that lstopo wrote (lstopo machine.xml)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pids", "root"])]
    pub hwloc: Option<PathBuf>,
    /// A machine described in one line, such as '2n 4c 2t 16GiB + 1n 128GiB dist:10/21'
    #[arg(long, value_name = "LINE", conflicts_with_all = ["pids", "root", "hwloc"])]
    pub synthetic: Option<Synthetic>,
    /// Count every page instead of sampling
    #[arg(long, requires = "pids")]
    pub exact: bool,
    /// Sample at least this many pages of each kind
    #[arg(long, value_name = "N", requires = "pids", conflicts_with = "exact",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub samples: Option<u64>,
    /// Decide by this number which pages are sampled, to look at the same ones again
    #[arg(long, value_name = "N", requires = "pids")]
    pub seed: Option<u64>,
    /// Print what `numactl -H` prints and nothing else
    #[arg(long, short = 'H', conflicts_with_all = ["pids", "window", "json"])]
    pub hardware: bool,
    /// Watch CPU time for this long before ranking, such as 1s [default: 100ms]
    #[arg(long, value_parser = units::parse_duration_ns, value_name = "TIME",
          conflicts_with = "pids")]
    pub window: Option<u64>,
    /// How to print the result.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// When something is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// Also where nobody may be watching
    Always,
    /// On a terminal
    Auto,
    /// Not at all
    Never,
}

impl MoveArgs {
    /// When to show progress.
    pub fn progress(&self) -> When {
        if self.quiet { When::Never } else { self.progress }
    }
}

/// Reads one of `all` by its name; `--help` lists the names.
fn named<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.map(name))
        .map(move |word| all.into_iter().find(|&value| name(value) == word).unwrap_or(all[0]))
}

fn parse_range(text: &str) -> Result<Range, String> {
    let wrong = || "expected START-END in hexadecimal, such as 7f0000000000-7f0000200000";
    let number = |text: &str| {
        u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).map_err(|_| wrong())
    };
    let (start, end) = text.split_once('-').ok_or_else(wrong)?;
    let (start, end) = (number(start)?, number(end)?);
    if start < end { Ok(Range::new(start, end)) } else { Err(wrong().to_owned()) }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn ranges_are_hexadecimal_and_not_empty() {
        assert_eq!(parse_range("1000-0x2000"), Ok(Range::new(0x1000, 0x2000)));
        for text in ["", "1000", "2000-1000", "1000-1000", "x-y", "-1000"] {
            assert!(parse_range(text).is_err(), "{text}");
        }
    }
}
