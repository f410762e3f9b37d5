//! The command line as a whole: the verbs with their help, and errors in it.

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use nodeward_model::Escape as _;
use nodeward_model::name::sanitize_for_terminal;

use super::balance::BalanceArgs;
use super::bench::BenchArgs;
use super::config::ConfigArgs;
use super::examples;
use super::explain::ExplainArgs;
use super::ledger::{LedgerArgs, UndoArgs};
use super::moves::MoveArgs;
use super::output::OutputArgs;
use super::reproduce::ReproduceArgs;
use super::run::RunArgs;
use super::show::ShowArgs;
use super::sim::SimArgs;
use crate::message::exit::Exit;
use crate::message::help::compact;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    const REFERENCE: &str = include_str!("../../../../docs/reference/verbs.md");

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
}
