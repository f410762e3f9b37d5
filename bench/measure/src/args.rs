//! The command line of the benchmark.

use std::path::PathBuf;

use clap::{Args as Group, Parser, Subcommand, ValueEnum};
use nodeward_model::Synthetic;
use nodeward_model::units::{parse_bytes, parse_duration_ns};

use crate::victim::VictimOptions;

/// Measures whole commands against those that people use today, in one run.
///
/// The last line on standard output is JSON: `measured`, and every sample behind it.
#[derive(Debug, Parser)]
#[command(name = "nodeward-bench", version)]
pub struct Args {
    /// The measurement to make.
    #[command(subcommand)]
    pub measurement: Measurement,
}

/// The measurements.
#[derive(Debug, Subcommand)]
pub enum Measurement {
    /// Compare the speed of `nodeward move PID 0 1` with that of `migratepages PID 0 1`, as a ratio
    Speed(SpeedOptions),
    /// Compare the time of a command on a process with that on one of another shape, as a ratio
    Growth(GrowthOptions),
    /// Compare the start of a program by `nodeward run` with its start by `numactl`, as a ratio of
    /// times
    Start(StartOptions),
    /// Measure how long a thread of the process waits for pages in flight while its pages move
    Stall(StallOptions),
    /// Measure the time of `nodeward show --topology` on a large machine, in ms
    Topology(TopologyOptions),
    /// Measure the memory that an exchange of all pages of two processes needs beyond their own two
    /// nodes, in MiB
    Exchange(ExchangeOptions),
    /// Compare the speed of a list of scattered addresses with that of the same memory as a range
    List(ListOptions),
    /// Compare the search of physical addresses with the loops of 2004, as a ratio of speeds
    Loops(LoopsOptions),
    /// Measure the cost of the ledger to a move, in percent of the move's time, or the error of an
    /// undo, in percent of the pages
    Ledger(LedgerOptions),
    /// Measure the part of a CPU that a look at all processes takes once a second, for 1,000
    /// threads, in percent
    Look(LookOptions),
    /// Measure the costs of this machine for a scenario, each alone, in ns: lines read and
    /// written, near and far, faults, hint faults, moved pages, and looks. Needs nodes 0 and 1, and
    /// `nodeward-stream`
    Costs(CostsOptions),
    /// Run as a process at which `look` looks
    #[command(hide = true)]
    Crowd(CrowdOptions),
    /// Measure the CPU time that `nodeward top` takes in a second beside processes that sleep, in
    /// passes over their stat files, or the time from a key to its answer, in ms
    Top(TopOptions),
    /// Measure the CPU time that `nodeward balance` takes in a second beside processes that sleep,
    /// in passes over their stat files
    Rest(SleepersOptions),
    /// Compare how late the answers of a server are, or how much of its work is lost, while
    /// `nodeward move` and `migratepages` move it, as a ratio
    Victim(VictimOptions),
    /// Measure the slowdown of a program that is sampled by registers, or the cost of the sampler,
    /// in percent
    Sampling(SamplingOptions),
    /// Run as a program that reads its memory at random
    #[command(hide = true)]
    Walk(WalkOptions),
    /// Print which pages of a process the lab has counted, for `nodeward move PID --hot FILE`
    ///
    /// Lines of address, accessing node and misses: for a machine of the lab that counts
    /// (`nodeward-lab run --count`), and a process whose slot is counted by frames.
    Counts(CountsOptions),
}

/// Options of `costs`.
#[derive(Clone, Debug, Group)]
pub struct CostsOptions {
    /// Memory of each node that is gone through
    #[arg(long, default_value = "64MiB", value_parser = parse_bytes)]
    pub size: u64,

    /// Number of passes; the median pass counts
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pub passes: u32,
}

/// Options of `start`.
#[derive(Clone, Debug, Group)]
pub struct StartOptions {
    /// Number of pairs of starts
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..))]
    pub pairs: u32,
}

/// Options of `sampling`.
#[derive(Clone, Debug, Group)]
pub struct SamplingOptions {
    /// The value to print as `measured`
    #[arg(long, value_enum)]
    pub figure: SamplingFigure,
    /// Samples a second on each CPU
    #[arg(long, default_value_t = 1000, value_name = "HZ",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: u32,
    /// Print the value for this number of samples a second; the cost of a sample is taken to be the
    /// same [default: that of --rate]
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..))]
    pub at: Option<u32>,
    /// Number of pairs of windows, one without and one with sampling
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub pairs: u32,
    /// The length of a window
    #[arg(long, default_value_t = 1000, value_name = "MS",
        value_parser = clap::value_parser!(u64).range(1..))]
    pub window_ms: u64,
}

/// The value that `sampling` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SamplingFigure {
    /// Decrease of the work that the program does in a CPU second
    Slower,
    /// CPU time of the sampler for each CPU that is sampled
    Sampler,
}

/// Options of `walk`.
#[derive(Clone, Debug, Group)]
pub struct WalkOptions {
    /// The file in which threads count
    pub counts: PathBuf,
    /// Number of threads
    #[arg(long)]
    pub threads: usize,
}

/// Options of `counts`.
#[derive(Clone, Debug, Group)]
pub struct CountsOptions {
    /// The process id
    pub pid: u32,
    /// Count also the accesses that the cache answered
    #[arg(long)]
    pub accesses: bool,
}

/// The process whose memory is moved.
#[derive(Clone, Debug, Group)]
pub struct MemoryOptions {
    /// Size of the memory
    #[arg(long, default_value = "512MiB", value_parser = parse_bytes)]
    pub size: u64,
    /// Kind of the memory, as nodeward-load names it
    #[arg(long, default_value = "anonymous")]
    pub kind: String,
    /// Size of the address range over which the memory is spread
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub over: Option<u64>,
    /// Number of mappings into which the memory is divided
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub mappings: u32,
}

impl MemoryOptions {
    /// Returns anonymous memory of `size` bytes in one piece.
    pub fn anonymous(size: u64) -> Self {
        Self { size, kind: "anonymous".to_owned(), over: None, mappings: 1 }
    }
}

/// Options of `speed`.
#[derive(Clone, Debug, Group)]
pub struct SpeedOptions {
    /// The memory of the process.
    #[command(flatten)]
    pub memory: MemoryOptions,
    /// Move this process, which lies on node 0 and has --size, instead of one that is started
    #[arg(long)]
    pub pid: Option<u32>,
    /// Number of pairs of commands that are compared
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..))]
    pub pairs: u32,
    /// Options for `nodeward move`, such as --jobs 2
    #[arg(last = true)]
    pub options: Vec<String>,
}

/// Options of `growth`.
#[derive(Clone, Debug, Group)]
pub struct GrowthOptions {
    /// The memory of the process.
    #[command(flatten)]
    pub memory: MemoryOptions,
    /// The command that is timed
    #[arg(long, value_enum)]
    pub verb: GrowthVerb,
    /// Size of the memory of the other process, in one mapping [default: the same]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub against_size: Option<u64>,
    /// Size of the address range over which that is spread [default: its size]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub against_over: Option<u64>,
    /// Number of pairs of commands that are compared
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..))]
    pub pairs: u32,
    /// Options for the command, such as --jobs 2
    #[arg(last = true)]
    pub options: Vec<String>,
}

/// The command that `growth` times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GrowthVerb {
    /// `nodeward move`
    Move,
    /// `nodeward show`
    Show,
}

/// Options of `stall`.
#[derive(Clone, Debug, Group)]
pub struct StallOptions {
    /// The memory of the process.
    #[command(flatten)]
    pub memory: MemoryOptions,
    /// Number of processes that each command moves, in turns
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub turns: u32,
    /// Number of moves of each process
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub moves: u32,
    /// The time between two touches of the thread that measures
    #[arg(long, default_value = "50us", value_name = "TIME")]
    pub interval: String,
    /// Number of pages that the thread touches each time
    #[arg(long, default_value_t = 32, value_name = "PAGES")]
    pub burst: u32,
    /// The stall budget of `nodeward move`
    #[arg(long, default_value = "1ms", value_name = "TIME")]
    pub stall: String,
    /// Options for `nodeward move`, such as --jobs 2
    #[arg(last = true)]
    pub options: Vec<String>,
}

/// Options of `topology`.
#[derive(Clone, Debug, Group)]
pub struct TopologyOptions {
    /// The `nodeward` to measure
    #[arg(long, value_name = "PATH", default_value = "nodeward")]
    pub program: PathBuf,
    /// The machine to show, in one line
    #[arg(long, default_value = "8n 64c 2t 64GiB L1d:48KiB L1i:32KiB L2:2MiB L3:96MiB split")]
    pub machine: Synthetic,
    /// Number of runs
    #[arg(long, default_value_t = 41, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
}

/// Options of `exchange`.
#[derive(Clone, Debug, Group)]
pub struct ExchangeOptions {
    /// Size of the memory of each of the two processes
    #[arg(long, default_value = "512MiB", value_parser = parse_bytes)]
    pub size: u64,
    /// Free memory of each node; pools of huge pages take the rest
    #[arg(long, default_value = "64MiB", value_parser = parse_bytes)]
    pub free: u64,
    /// Number of runs
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Options for `nodeward move`, such as --jobs 2
    #[arg(last = true)]
    pub options: Vec<String>,
}

/// Options of `list`.
#[derive(Clone, Debug, Group)]
pub struct ListOptions {
    /// Size of the memory of the process
    #[arg(long, default_value = "4GiB", value_parser = parse_bytes)]
    pub size: u64,
    /// Number of addresses in the list, in no order
    #[arg(long, default_value_t = 1_000_000)]
    pub addresses: usize,
    /// Give the list as physical addresses
    #[arg(long)]
    pub physical: bool,
    /// Number of pairs of commands that are compared
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub pairs: u32,
    /// Options for `nodeward move`, such as --jobs 2
    #[arg(last = true)]
    pub options: Vec<String>,
}

/// Options of `loops`.
#[derive(Clone, Debug, Group)]
pub struct LoopsOptions {
    /// Number of pages that the process has mapped; the default is 1 GiB of them
    #[arg(long, default_value_t = 262_144)]
    pub pages: usize,
    /// Number of addresses in the list; the default is the maximum of a call in 2004
    #[arg(long, default_value_t = 2048)]
    pub addresses: usize,
    /// Number of runs
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
}

/// Options of `ledger`.
#[derive(Clone, Debug, Group)]
pub struct LedgerOptions {
    /// The memory of the process.
    #[command(flatten)]
    pub memory: MemoryOptions,
    /// The figure to print as `measured`
    #[arg(long, value_enum, default_value_t = LedgerFigure::Cost)]
    pub figure: LedgerFigure,
    /// Number of times that the process is moved and the move undone
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u32).range(1..))]
    pub moves: u32,
    /// Options for `nodeward move`, such as --jobs 2
    #[arg(last = true)]
    pub options: Vec<String>,
}

/// Options of `look`.
#[derive(Clone, Debug, Group)]
pub struct LookOptions {
    /// Threads that are started
    #[arg(long, default_value_t = 1000)]
    pub threads: u32,
    /// Number of processes that have the threads
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub processes: u32,
    /// Threads of each process that work between two looks; the others sleep
    #[arg(long, value_enum, default_value_t = Awake::One)]
    pub awake: Awake,
    /// Number of looks that are measured, after two that are not
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub looks: u32,
    /// The time between two looks, in milliseconds; what they cost counts as if it were a second
    #[arg(long, default_value_t = 1000)]
    pub pause_ms: u64,
}

/// Options of `top`.
#[derive(Clone, Debug, Group)]
pub struct TopOptions {
    /// The value to print as `measured`
    #[arg(long, value_enum)]
    pub figure: TopFigure,
    /// What is measured.
    #[command(flatten)]
    pub beside: SleepersOptions,
    /// How often each of three keys is pressed
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub keys: u32,
}

/// A `nodeward` that is measured beside processes that sleep: options of `rest`, and of `top`.
#[derive(Clone, Debug, Group)]
pub struct SleepersOptions {
    /// The `nodeward` to measure
    #[arg(long, value_name = "PATH", default_value = "nodeward")]
    pub program: PathBuf,
    /// Processes that sleep
    #[arg(long, default_value_t = 500)]
    pub processes: u32,
    /// For how long CPU time is measured
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = parse_duration_ns)]
    pub time: u64,
}

/// The value that `top` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TopFigure {
    /// Its CPU time
    Cpu,
    /// The time from a key to the picture that answers it: 99 of 100 take no longer
    Key,
}

/// Options of `crowd`.
#[derive(Clone, Debug, Group)]
pub struct CrowdOptions {
    /// Number of threads
    #[arg(long)]
    pub threads: u32,
    /// Threads that work
    #[arg(long, value_enum)]
    pub awake: Awake,
}

/// The threads of a process that work: a little, five times a second. The first thread never works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Awake {
    /// No thread
    None,
    /// One thread
    One,
    /// All threads
    All,
}

/// A figure of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LedgerFigure {
    /// Time spent on the ledger, in percent of the move's time
    Cost,
    /// Pages that are not where they were before the move, in percent
    Undo,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the command lines of bench/run are parsed as intended.
    #[test]
    fn usage() {
        let line = "bench speed --size 64MiB --kind thp -- --jobs 2";
        let Measurement::Speed(speed) = Args::parse_from(line.split(' ')).measurement else {
            panic!("{line}")
        };
        assert_eq!((speed.memory.size, speed.memory.kind.as_str()), (64 << 20, "thp"));
        assert_eq!(speed.options, ["--jobs", "2"]);
        assert!(Args::try_parse_from(["bench", "speed", "--pairs", "0"]).is_err());
    }

    /// Goal: a crowd matches the promise: 1,000 threads, one of each process awake.
    #[test]
    fn a_crowd_has_a_thousand_threads() {
        let Measurement::Look(look) = Args::parse_from(["bench", "look"]).measurement else {
            panic!("another verb")
        };
        assert_eq!((look.threads, look.processes, look.awake), (1000, 50, Awake::One));
    }

    /// Goal: the machine that SPEC.md names is the machine that is made.
    #[test]
    fn the_large_machine_has_eight_nodes_and_1024_cpus() {
        let Measurement::Topology(options) = Args::parse_from(["bench", "topology"]).measurement
        else {
            panic!("another verb")
        };
        let topology = options.machine.topology();
        assert_eq!((topology.nodes.len(), topology.cpus.len()), (8, 1024));
    }
}
