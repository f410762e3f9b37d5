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
use super::evacuate::EvacuateArgs;
use super::examples;
use super::explain::ExplainArgs;
use super::export::ExportArgs;
use super::group::GroupArgs;
use super::ledger::{LedgerArgs, UndoArgs};
use super::moves::MoveArgs;
use super::output::OutputArgs;
use super::pcp::PcpArgs;
use super::placement::PlacementArgs;
use super::report::ReportArgs;
use super::reproduce::ReproduceArgs;
use super::run::RunArgs;
use super::show::ShowArgs;
use super::sim::SimArgs;
use super::spread::SpreadArgs;
use super::top::TopArgs;
use super::watch::WatchArgs;
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
    /// Read the user's settings from this file instead of ~/.config/nodeward/config.toml
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Move the memory of running processes from nodes to nodes.
    ///
    /// FROM and TO are nodes as numactl takes them: 0,2, 0-3, all, !1, +0, or netdev:eth0. Several
    /// nodes keep their relative position: 0,1 to 2,3 moves 0 to 2 and 1 to 3. 0,1 to 1,0 exchanges
    /// two nodes, even if both are nearly full. The processes keep running. Each page ends as
    /// moved, already there, or skipped with a reason.
    ///
    /// Shared memory segments that the processes map are moved whole, also the pages that no
    /// process maps.
    ///
    /// With --file: moves the page cache of files to TO, from FROM or else from all other nodes.
    /// Pages that are not in memory are not read in.
    #[command(after_long_help = examples::MOVE)]
    Move(MoveArgs),
    /// Even out the memory of running processes over nodes, with as few page moves as possible.
    ///
    /// Each mapping and each segment of shared memory is evened by itself, over NODES, a node
    /// string as numactl takes it. What is within a node's part stays. Of the rest whole blocks
    /// move, so that neighbours in memory end on different nodes; nodes that are not named keep
    /// nothing. A segment is evened once, however many processes map it, also the pages that none
    /// of them maps. A mapping smaller than a block is not divided. New memory goes where the
    /// program's memory policy says: spread evens out what exists.
    #[command(after_long_help = examples::SPREAD)]
    Spread(SpreadArgs),
    /// Move everything movable off nodes: the memory of all processes, and cached files if asked.
    ///
    /// NODES and TO are node strings, as for move. What the nearest node of TO has no room for goes
    /// to the next. Shared memory segments that processes map are moved whole. Processes of others
    /// need privileges; those that may not be touched are counted. A process whose cpuset has no
    /// other node keeps its pages. Memory policies of programs (numactl, mbind) do not hold pages
    /// back, but new pages follow them.
    ///
    /// The kernel has no list of all cached files. So --files finds files that processes map or
    /// have open, and --file those that you name; the cache of other files stays. Memory of the
    /// kernel itself never moves. In the end the use of the nodes is shown: what stayed, and what
    /// came since. New memory may come to the nodes at any time.
    #[command(after_long_help = examples::EVACUATE)]
    Evacuate(EvacuateArgs),
    /// Save where memory and threads of processes are, and restore it after a restart.
    ///
    /// A placement is kept in a file that names memory by mapping and offset, and threads by name,
    /// so that it fits the same program at other addresses. Of what does not fit, restore tells
    /// what and why. It sets no memory policies: new memory goes where the program's policy says.
    #[command(after_long_help = examples::PLACEMENT)]
    Placement(PlacementArgs),
    /// Give every long-running process a home node, and keep its threads and memory there.
    ///
    /// The balancer works in rounds until Ctrl-C or SIGTERM; SIGHUP makes it read its settings
    /// again. It moves threads to their home without binding them there. It moves memory home if
    /// that saves more time than it costs, within a budget of bytes per second. Each decision has a
    /// reason, also each refusal; nodeward explain REASON has more. New decisions are written to
    /// standard error, memory moves also to the ledger. With --once or --dry-run it makes one round
    /// and prints it as a table. Defaults hold where no settings file says otherwise.
    #[command(after_long_help = examples::BALANCE)]
    Balance(BalanceArgs),
    /// Hand out metrics of the balancer to Prometheus, over HTTP.
    ///
    /// Asks the agent of nodeward balance, at its socket, each time that Prometheus asks. If no
    /// balancer answers, the metric nodeward_up is 0, and the exporter goes on. It needs no
    /// privileges. Without a network: nodeward balance --textfile.
    #[command(after_long_help = examples::EXPORT)]
    Export(ExportArgs),
    /// Place threads and memory as one: groups of parts of programs, by their owners.
    ///
    /// A group is threads of one or several processes and the memory that they use; the balancer
    /// gives it a home like a process. Groups are in the agent of nodeward balance, and go on while
    /// it restarts; what is ordered takes effect in its next round. For programs that cannot be
    /// changed, [group.NAME] in a settings file finds threads by their names. An affinity or memory
    /// policy that a program set wins over its group.
    #[command(after_long_help = examples::GROUP)]
    Group(GroupArgs),
    /// Start a program at home: its threads on one node, its memory there as long as there is room.
    ///
    /// The program replaces nodeward, so signals and exit codes are those of the program. Codes of
    /// nodeward itself: 125 if it refuses the home, 126 if the program cannot be started, 127 if it
    /// does not exist. The program gets a memory policy that prefers its home (set_mempolicy,
    /// MPOL_PREFERRED). Programs that it starts inherit the policy, and with --pin the affinity.
    /// Without --pin the scheduler may move its threads to other nodes later.
    #[command(after_long_help = examples::RUN)]
    Run(RunArgs),
    /// Print settings, and where each of them comes from
    Config(ConfigArgs),
    /// Take a move back: pages that are still where the move put them return to their old nodes.
    ///
    /// The kernel does not say whether a page was freed and allocated again since the move. Such a
    /// page is moved too if it is on the node that the move went to. An undo is a move, and can be
    /// undone itself.
    #[command(after_long_help = examples::UNDO)]
    Undo(UndoArgs),
    /// List past moves, the latest first, or show one of them.
    ///
    /// Each move writes to the ledger what it is about to do, before it does it. A move that was
    /// killed is listed as interrupted, and can be undone like any other. The last 100 moves are
    /// kept: in /var/lib/nodeward for root, in ~/.local/state/nodeward for others, or in
    /// $NODEWARD_STATE_DIR if that is set.
    #[command(after_long_help = examples::LEDGER)]
    Ledger(LedgerArgs),
    /// Show where the memory of processes is, by kind of mapping.
    ///
    /// Without a PID: the machine, and its processes ranked by memory away from the CPUs they run
    /// on. With PIDs: the memory of each by node. Pages are sampled until the share of each node is
    /// known within 2 percentage points (95 % intervals), which takes a few milliseconds for a
    /// process of any size.
    Show(ShowArgs),
    /// Watch nodes, processes and groups on a screen; look closer, move memory, take moves back.
    ///
    /// Shows where memory and threads of processes are, where their homes are and why, and what
    /// moves now. Homes are those of the agent with --agent, else those that nodeward balance would
    /// give. Memory is sampled for 0.3 % of a CPU, first that of processes on the screen; each row
    /// says how old its figures are. ? shows the keys. With --batch each refresh is printed as
    /// text, or as JSON.
    #[command(after_long_help = examples::TOP)]
    Top(TopArgs),
    /// Show, watch and tune page lists: the free pages that each CPU keeps of each zone.
    ///
    /// A CPU that finds its list empty, or full, visits the zone and waits for its lock. Long lists
    /// save visits; what is in them is of no use to others.
    #[command(after_long_help = examples::PCP)]
    Pcp(PcpArgs),
    /// Count who has the kernel migrate pages: for which reason, how many, how fast, how long held.
    ///
    /// A line for each reason of the kernel: syscall (move_pages, migrate_pages, cpusets),
    /// mempolicy_mbind, numa_misplaced (NUMA balancing), compaction, demotion (reclaim),
    /// contig_range, longterm_pin, memory_hotplug, memory_failure, damon. MOVED and FAILED are base
    /// pages; THP has huge pages moved/failed/split; HELD is the time for which page tables had a
    /// migration entry in place of a page; BY has those who called, by name and pid. Programs
    /// inside the kernel count (BPF; needs root, or CAP_BPF and CAP_PERFMON); they end with the
    /// command, however it ends. Where that cannot be, /proc/vmstat tells how many pages moved, but
    /// not by whom.
    ///
    /// With PIDs only calls in their own context count. A process that calls move_pages(2) is
    /// counted, not the one whose memory it moves. NUMA balancing works in the process that touches
    /// the page; direct compaction and demotion in the one that needs memory; kcompactd, kswapd and
    /// kdamond are processes of their own.
    #[command(after_long_help = examples::WATCH)]
    Watch(WatchArgs),
    /// Watch a process, or all, for a time, and write what was seen as a page to send to others.
    ///
    /// The page has where memory and threads were, what moved and why, stalls, what it would gain,
    /// and what could not be seen. It is one HTML file with all its pictures, without scripts, and
    /// loads nothing. Ctrl-C ends the watch early and writes what was seen until then. Nothing is
    /// moved.
    #[command(after_long_help = examples::REPORT)]
    Report(ReportArgs),
    /// Print this machine's topology files as one text, for a bug report or a test
    Capture,
    /// Check which features of this machine nodeward can use; print what is missing and how to fix
    /// it
    Doctor(OutputArgs),
    /// Measure the pager, page pools and the balancer's decision on this machine
    Bench(BenchArgs),
    /// Simulate a machine and its programs in virtual time.
    ///
    /// SCENARIO is the name of a built-in scenario (--list) or the path of a scenario file. The
    /// same seed gives the same run on every machine. Times in results are virtual: the simulation
    /// of one second may take more or less than a second. If a file has the name of a subcommand,
    /// write it with its directory: ./sweep.
    #[command(after_long_help = examples::SIM)]
    Sim(SimArgs),
    /// Simulate the experiments of five documents, and print their figures beside ours.
    ///
    /// Each table belongs to one document. nodeward implements what these five propose: copying by
    /// several threads (2017), batched TLB flushes (tlb), home nodes (2012), migration by hardware
    /// counters (2004), sizes of per-CPU page lists (pcp). Table zen3 has move rates that others
    /// measured. A further column shows what nodeward improves. All tables take about a minute on
    /// two CPUs.
    #[command(after_long_help = examples::REPRODUCE)]
    Reproduce(ReproduceArgs),
    /// Explain a reason, or what the balancer would do with a process, and why.
    ///
    /// Of a REASON: what it means, why it occurs, and what to do. Of a PID: where its threads and
    /// its memory are, what the balancer would do with it, why, and the numbers behind that
    /// decision. Changes nothing.
    #[command(after_long_help = examples::EXPLAIN)]
    Explain(ExplainArgs),
    /// Write the manual pages into a directory
    Man {
        /// The directory; it is created if it does not exist
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
