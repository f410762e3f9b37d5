//! The command line as it was typed. Nothing here looks at the machine.

mod balance;
mod bench;
mod compare;
mod config;
mod explain;
mod help;
mod reproduce;
mod run;
mod sim;
mod swarm;
mod sweep;

use std::path::PathBuf;

use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use nodeward_model::name::sanitize_for_terminal;
use nodeward_model::{Escape as _, MappingKind, Name, Pid, Range, Synthetic, units};
use nodeward_records::ledger::OperationId;

use crate::examples;
use crate::exit::Exit;
use crate::settings::MoveLayer;
use help::{COUNTING, ELSEWHERE, MEMORY, OUTPUT, SIMULATED};

pub use balance::BalanceArgs;
pub use bench::{BenchArgs, BenchBalanceArgs, BenchPagerArgs, BenchPoolArgs, Benchmark};
pub use compare::CompareArgs;
pub use config::{ConfigArgs, ConfigVerb, PrintArgs};
pub use explain::{ExplainArgs, ExplainSubject};
pub use help::{DECIDED, EXCEPT, PACE, PROCESSES, compact};
pub use reproduce::{ReproduceArgs, ReproduceFigure};
pub use run::{HomeChoice, RunArgs};
pub use sim::{SimArgs, SimVerb};
pub use swarm::{SwarmArgs, bug_name};
pub use sweep::SweepArgs;

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
    /// running; every page ends as moved, already there, or skipped with a reason. 0,1 to 1,0
    /// exchanges two nodes, even if both are nearly full.
    ///
    /// Segments of shared memory that they map are moved whole, also pages that no process maps.
    ///
    /// With --file: the page cache of files, from all other nodes (or from FROM) to TO. What is not
    /// in memory is not read.
    #[command(after_long_help = examples::MOVE)]
    Move(MoveArgs),
    /// Give every process a home node, and keep its threads and its memory there.
    ///
    /// Runs until it is told to end (Ctrl-C, SIGTERM), reads its settings again at SIGHUP, and
    /// tells on standard error each decision that is new. Threads are brought home and then run
    /// where they may; memory comes home where that saves more than it costs, within a budget.
    /// What was decided, also each refusal, has a reason, which nodeward explain knows. What memory
    /// was moved stands in the ledger. With --once or --dry-run: one round, as a table.
    #[command(after_long_help = examples::BALANCE)]
    Balance(BalanceArgs),
    /// Start a program at home: its threads on one node, its memory there as long as there is room.
    ///
    /// The program replaces nodeward, so signals and exit code are its own; 127 means that there is
    /// no such program, 126 that it cannot be started, 125 that its home was refused. That its
    /// memory is wanted there (set_mempolicy, preferred) passes on to all programs that it starts,
    /// and so does --pin. Without --pin its threads may go where there is time for them.
    #[command(after_long_help = examples::RUN)]
    Run(RunArgs),
    /// Print settings, and where each of them comes from
    Config(ConfigArgs),
    /// Take a move back: pages that are still where it put them return to where they were.
    ///
    /// A page that was freed and came back since cannot be told from one that stayed: if it is on
    /// the node that the move went to, it is moved, too. An undo is a move, and can be undone.
    #[command(after_long_help = examples::UNDO)]
    Undo(UndoArgs),
    /// List the moves that were made, the latest first, or show one of them.
    ///
    /// Each move writes what it is about to do before it does it. One that was killed is listed as
    /// interrupted, and can be undone like any other. The last 100 moves are kept, in
    /// /var/lib/nodeward for root, in ~/.local/state/nodeward for others, or where
    /// $NODEWARD_STATE_DIR says.
    #[command(after_long_help = examples::LEDGER)]
    Ledger(LedgerArgs),
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
    /// Measure what nodeward does on this machine
    Bench(BenchArgs),
    /// Simulate a machine and its programs in virtual time: what would happen if.
    ///
    /// SCENARIO is the name of one that comes along (--list) or the path of a file like them. The
    /// same seed is the same run, on every machine. What is measured in seconds is virtual: a
    /// second of a large machine may take longer or shorter than a second here. A file that is
    /// called like one of the commands is given with its directory, as ./sweep.
    #[command(after_long_help = examples::SIM)]
    Sim(SimArgs),
    /// Simulate what five documents measured: their figures, ours, and what nodeward adds.
    ///
    /// Each table is of a document that nodeward implements: threads that copy pages (2017),
    /// batched TLB flushes (tlb), home nodes (2012), migration by hardware counters (2004), page
    /// lists that size themselves (pcp); zen3 are figures of others. A minute on two CPUs for all.
    #[command(after_long_help = examples::REPRODUCE)]
    Reproduce(ReproduceArgs),
    /// Explain a reason, or what the balancer would do with a process, and why.
    ///
    /// Of a reason: what it means, why it is so, and what to do. Of a process: where its threads
    /// and its memory are, what would be done with it, why, and the numbers behind that. Nothing
    /// is done.
    #[command(after_long_help = examples::EXPLAIN)]
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

/// How results are printed.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = OUTPUT)]
pub struct OutputArgs {
    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,
}

/// What `move` is told.
#[derive(Debug, Args)]
#[command(override_usage = "nodeward move [OPTIONS] PID... FROM TO
       nodeward move [OPTIONS] PID [FROM] TO --addresses FILE
       nodeward move [OPTIONS] PID --hot SOURCE
       nodeward move [OPTIONS] --file PATH... [FROM] TO")]
pub struct MoveArgs {
    /// Process ids (none with --name, --cgroup or --file), then the nodes to leave, then those to
    /// go to
    #[arg(required = true, allow_negative_numbers = true, value_name = "PID... FROM TO")]
    pub operands: Vec<String>,
    /// Processes of this name, as ps shows it in its column COMMAND
    #[arg(help_heading = PROCESSES, long, value_name = "NAME", conflicts_with = "machine",
          value_parser = name_parser())]
    pub name: Vec<Name>,
    /// Processes of this control group and those below it
    #[arg(help_heading = PROCESSES, long, value_name = "GROUP", conflicts_with = "machine")]
    pub cgroup: Vec<PathBuf>,
    /// Instead of processes: what is in memory of this file, or of the files below this directory;
    /// may be repeated
    #[arg(help_heading = MEMORY, long, value_name = "PATH",
          conflicts_with_all = ["name", "cgroup", "only", "exclude", "range", "addresses", "hot",
                                "no_ledger", "machine"])]
    pub file: Vec<PathBuf>,
    /// Only these kinds of memory
    #[arg(help_heading = MEMORY, long, value_delimiter = ',', value_name = "KIND",
          value_parser = choice_parser(MappingKind::ALL, MappingKind::name))]
    pub only: Vec<MappingKind>,
    /// All but these kinds of memory
    #[arg(help_heading = MEMORY, long, value_delimiter = ',', value_name = "KIND",
          value_parser = choice_parser(MappingKind::ALL, MappingKind::name),
          conflicts_with = "only")]
    pub exclude: Vec<MappingKind>,
    /// Only addresses in this range, in hexadecimal as in /proc/PID/maps; may be repeated
    #[arg(help_heading = MEMORY, long, value_parser = parse_range, value_name = "START-END")]
    pub range: Vec<Range>,
    /// Only the pages that this file names, one address each (in hexadecimal, or binary: 8 bytes,
    /// little-endian); - is standard input. FROM may be left out
    #[arg(help_heading = MEMORY, long, value_name = "FILE",
          conflicts_with_all = ["name", "cgroup", "only", "exclude", "range"])]
    pub addresses: Option<PathBuf>,
    /// The addresses are physical
    #[arg(help_heading = MEMORY, long, requires = "addresses", conflicts_with = "machine")]
    pub physical: bool,
    /// Which hot pages are moved.
    #[command(flatten)]
    pub hot_pages: HotArgs,
    /// How the move is done.
    #[command(flatten)]
    pub layer: MoveLayer,
    /// Say what would be done and why, and do nothing
    #[arg(help_heading = OUTPUT, long)]
    pub dry_run: bool,
    /// Write no ledger: the move cannot be undone
    #[arg(help_heading = OUTPUT, long)]
    pub no_ledger: bool,
    /// When to show progress.
    #[command(flatten)]
    pub progress: ProgressArgs,
    /// How to print the result.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The machine.
    #[command(flatten)]
    pub machine_args: MachineArgs,
    /// Decide by this number what is left open on a simulated machine
    #[arg(help_heading = SIMULATED, long, value_name = "N", requires = "machine")]
    pub seed: Option<u64>,
}

/// Which machine a verb works on.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = SIMULATED)]
pub struct MachineArgs {
    /// A simulated machine instead of this one: sim: and a scenario, by its name or its path
    #[arg(long, value_name = "sim:SCENARIO", value_parser = parse_machine)]
    pub machine: Option<String>,
    /// Let the simulated machine run for so long before, such as 2s [default: until all memory is
    /// populated, for 1s at most]
    #[arg(long, value_name = "TIME", requires = "machine", value_parser = units::parse_duration_ns)]
    pub at: Option<u64>,
    /// Another value in the scenario, such as machine.latency=100ns; may be repeated
    #[arg(long, value_name = "KEY=VALUE", requires = "machine", value_parser = parse_override)]
    pub set: Vec<(String, String)>,
}

/// Which hot pages `move` moves.
#[derive(Debug, Args)]
#[command(next_help_heading = MEMORY)]
pub struct HotArgs {
    /// Only pages that are used so much that moving them pays, each to the node that uses it most.
    /// SOURCE is a perf.data with addresses, what perf script prints of one, or a file with lines
    /// ADDRESS NODE COUNT (- is standard input); or damon or written, to watch the process first,
    /// for 2s or as long as damon:TIME or written:TIME says
    #[arg(long, value_name = "SOURCE",
          conflicts_with_all = ["name", "cgroup", "only", "exclude", "range", "addresses",
                                "machine"])]
    pub hot: Option<String>,
    /// How many cache misses each counted access stands for [default: 1; damon 64, written 1000]
    #[arg(long, value_name = "N", requires = "hot")]
    pub misses_per_count: Option<u64>,
    /// Move at most this much, of the pages that gain most, such as 1GiB
    #[arg(long, value_name = "SIZE", requires = "hot", value_parser = units::parse_bytes)]
    pub hot_max: Option<u64>,
}

/// When progress is shown.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = OUTPUT)]
pub struct ProgressArgs {
    /// When to show progress on standard error; without a terminal it is shown line by line
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

/// What `ledger` is told.
#[derive(Debug, Args)]
pub struct LedgerArgs {
    /// The operation to show; all of them, in short, if none is given
    #[arg(value_name = "ID")]
    pub id: Option<OperationId>,
    /// List every run of pages, too
    #[arg(long, requires = "id")]
    pub runs: bool,
    /// How to print it.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// What `undo` is told.
#[derive(Debug, Args)]
pub struct UndoArgs {
    /// The operation to take back, as `nodeward ledger` numbers it
    #[arg(value_name = "ID")]
    pub id: OperationId,
    /// How pages are moved.
    #[command(flatten)]
    pub layer: MoveLayer,
    /// Say what would be done and why, and do nothing
    #[arg(help_heading = OUTPUT, long)]
    pub dry_run: bool,
    /// When to show progress.
    #[command(flatten)]
    pub progress: ProgressArgs,
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
    /// The machine whose sys and proc lie in this directory; its processes are not shown
    #[arg(help_heading = ELSEWHERE, long, value_name = "DIR",
          conflicts_with_all = ["pids", "machine"])]
    pub root: Option<PathBuf>,
    /// The machine in a file that lstopo wrote (lstopo machine.xml)
    #[arg(help_heading = ELSEWHERE, long, value_name = "FILE",
          conflicts_with_all = ["pids", "root", "machine"])]
    pub hwloc: Option<PathBuf>,
    /// A machine described in one line, such as '2n 4c 2t 16GiB + 1n 128GiB dist:10/21'
    #[arg(help_heading = ELSEWHERE, long, value_name = "LINE",
          conflicts_with_all = ["pids", "root", "hwloc", "machine"])]
    pub synthetic: Option<Synthetic>,
    /// Count every page instead of sampling
    #[arg(help_heading = COUNTING, long, requires = "pids")]
    pub exact: bool,
    /// Sample at least this many pages of each kind
    #[arg(help_heading = COUNTING, long, value_name = "N", requires = "pids",
          conflicts_with = "exact", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub samples: Option<u64>,
    /// Decide by this number which pages are sampled, to look at the same ones again, and what is
    /// left open on a simulated machine
    #[arg(help_heading = COUNTING, long, value_name = "N")]
    pub seed: Option<u64>,
    /// Watch CPU time for this long before ranking, such as 1s [default: 100ms]
    #[arg(help_heading = COUNTING, long, value_name = "TIME",
          value_parser = units::parse_duration_ns, conflicts_with_all = ["pids", "machine"])]
    pub window: Option<u64>,
    /// Only the machine, without its processes
    #[arg(help_heading = OUTPUT, long, conflicts_with = "pids")]
    pub topology: bool,
    /// Print what `numactl -H` prints and nothing else
    #[arg(help_heading = OUTPUT, long, short = 'H',
          conflicts_with_all = ["pids", "window", "json"])]
    pub hardware: bool,
    /// How to print the result.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The machine.
    #[command(flatten)]
    pub machine_args: MachineArgs,
}

/// When something is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProgressMode {
    /// Also where nobody may be watching
    Always,
    /// On a terminal
    Auto,
    /// Not at all
    Never,
}

/// Creates a parser of one of `all` by its name; `--help` lists the names.
fn choice_parser<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.map(name))
        .map(move |word| all.into_iter().find(|&value| name(value) == word).unwrap_or(all[0]))
}

/// Creates a parser of a name, which need not be UTF-8.
pub fn name_parser() -> impl TypedValueParser<Value = Name> {
    OsStringValueParser::new().map(Name::from)
}

/// Returns an error of the command line with the typed words escaped. It quotes words, and scripts
/// pass on those of others.
pub fn with_escaped_arguments(error: clap::Error) -> clap::Error {
    let is_raw = |word: &str| sanitize_for_terminal(word) != word || word.contains(['\n', '\t']);
    if !std::env::args_os().any(|word| word.to_str().is_none_or(is_raw)) {
        return error;
    }
    let words: Vec<_> = std::env::args_os().map(|word| word.escaped().to_string()).collect();
    compact(Cli::command()).try_get_matches_from(&words).err().unwrap_or_else(|| {
        match error.kind() {
            ErrorKind::InvalidUtf8 => {
                let odd = std::env::args_os().zip(words).find(|(word, _)| word.to_str().is_none());
                let odd = odd.map(|(_, shown)| shown).unwrap_or_default();
                Cli::command().error(ErrorKind::InvalidUtf8, format!("'{odd}' is not UTF-8"))
            }
            _ => error,
        }
    })
}

fn parse_machine(text: &str) -> Result<String, String> {
    let scenario = text.strip_prefix("sim:").filter(|name| !name.is_empty());
    let expected = "expected sim:SCENARIO, such as sim:two-socket";
    scenario.map(str::to_owned).ok_or_else(|| expected.to_owned())
}

fn parse_override(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(key, _)| !key.is_empty());
    let expected = "expected KEY=VALUE, such as machine.latency=100ns";
    pair.map(|(key, value)| (key.into(), value.into())).ok_or_else(|| expected.to_owned())
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
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    const REFERENCE: &str = include_str!("../../../docs/reference/verbs.md");

    /// Checks that a command has a section in the reference; a command without one belongs to the
    /// section of the command above it.
    fn assert_documented(command: &clap::Command, path: &str, above: &str) {
        let mut sections = REFERENCE.split("\n## ");
        let section = sections.find(|text| text.lines().next() == Some(path)).unwrap_or(above);
        assert!(!section.is_empty(), "docs/reference/verbs.md has no section {path:?}");
        for option in command.get_arguments().filter_map(clap::Arg::get_long) {
            let is_told = section.contains(&format!("--{option}"));
            assert!(is_told, "docs/reference/verbs.md: section {path:?} lacks --{option}");
        }
        for below in command.get_subcommands() {
            let path = format!("{path} {}", below.get_name());
            assert_documented(below, path.trim(), section);
        }
    }

    /// Goal: docs/reference/verbs.md has a section for each command, with each of its options.
    #[test]
    fn the_reference_is_complete() {
        for command in Cli::command().get_subcommands() {
            assert_documented(command, command.get_name(), "");
        }
    }

    #[test]
    fn ranges_are_hexadecimal_and_not_empty() {
        assert_eq!(parse_range("1000-0x2000"), Ok(Range::new(0x1000, 0x2000)));
        for text in ["", "1000", "2000-1000", "1000-1000", "x-y", "-1000"] {
            assert!(parse_range(text).is_err(), "{text}");
        }
    }
}
