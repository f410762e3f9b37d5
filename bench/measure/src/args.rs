//! The command line of the benchmark.

use std::path::PathBuf;

use clap::{Args as Group, Parser, Subcommand, ValueEnum};
use nodeward_model::Synthetic;
use nodeward_model::units::parse_bytes;

/// Measures whole commands against those that people use today, in one run.
///
/// The last line on standard output is JSON: `measured`, and every sample behind it.
#[derive(Debug, Parser)]
#[command(name = "nodeward-bench", version)]
pub struct Args {
    /// What to measure.
    #[command(subcommand)]
    pub measurement: Measurement,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum Measurement {
    /// How many times as fast as `migratepages PID 0 1` is `nodeward move PID 0 1`
    Speed(SpeedOptions),
    /// How many times as long as by `numactl` a program waits that is started by `nodeward run`
    Start(StartOptions),
    /// How long a thread of the process waits for pages in flight meanwhile
    Stall(StallOptions),
    /// How long `nodeward show --topology` takes on a large machine, in ms
    Topology(TopologyOptions),
    /// How much memory beyond their own two nodes need that exchange all pages of two processes, in
    /// MiB
    Exchange(ExchangeOptions),
    /// How many times as fast a list of scattered addresses moves as the same memory as a range
    List(ListOptions),
    /// How many times as fast physical addresses are found as by the loops of 2004
    Loops(LoopsOptions),
    /// What the ledger costs a move, in percent of its time, and how far off an undo ends
    Ledger(LedgerOptions),
    /// What share of a CPU a look at all processes takes once a second, for 1,000 threads, in
    /// percent
    Look(LookOptions),
    /// What lines near and far, faults, moved pages and looks cost here, each measured alone, in
    /// ns: the costs of a scenario of this machine. Needs nodes 0 and 1, and `nodeward-stream`
    Costs(CostsOptions),
    /// A process that such looks are at
    #[command(hide = true)]
    Crowd(CrowdOptions),
    /// How much slower a program becomes that is sampled by registers, and what the sampler costs,
    /// in percent
    Sampling(SamplingOptions),
    /// A program that reads its memory at random
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

    /// How often; the fastest pass counts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub passes: u32,
}

/// Options of `start`.
#[derive(Clone, Debug, Group)]
pub struct StartOptions {
    /// How many pairs of starts
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..))]
    pub pairs: u32,
}

/// Options of `sampling`.
#[derive(Clone, Debug, Group)]
pub struct SamplingOptions {
    /// The value to print as `measured`
    #[arg(long, value_enum)]
    pub figure: SamplingFigure,
    /// How many samples a second on each CPU
    #[arg(long, default_value_t = 1000, value_name = "HZ",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub rate: u32,
    /// Print the value for so many samples a second; the cost of each is taken to be the same
    /// [default: that of --rate]
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..))]
    pub at: Option<u32>,
    /// How many pairs of windows, without and with sampling
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
    /// How much less work the program does in a CPU second
    Slower,
    /// CPU time of the sampler for each CPU that is sampled
    Sampler,
}

/// Options of `walk`.
#[derive(Clone, Debug, Group)]
pub struct WalkOptions {
    /// The file in which threads count
    pub counts: PathBuf,
    /// How many threads
    #[arg(long)]
    pub threads: usize,
}

/// Options of `counts`.
#[derive(Clone, Debug, Group)]
pub struct CountsOptions {
    /// The process
    pub pid: u32,
    /// Count accesses, those that the cache answered, too
    #[arg(long)]
    pub accesses: bool,
}

/// The process whose memory is moved.
#[derive(Clone, Debug, Group)]
pub struct MemoryOptions {
    /// How much memory it has
    #[arg(long, default_value = "512MiB", value_parser = parse_bytes)]
    pub size: u64,
    /// What kind of memory, as nodeward-load names it
    #[arg(long, default_value = "anonymous")]
    pub kind: String,
    /// Over how many addresses it is spread
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub over: Option<u64>,
    /// Into how many mappings these are divided
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub mappings: u32,
}

impl MemoryOptions {
    /// Returns so much anonymous memory in one piece.
    pub fn anonymous(size: u64) -> Self {
        Self { size, kind: "anonymous".to_owned(), over: None, mappings: 1 }
    }
}

/// Options of `speed`.
#[derive(Clone, Debug, Group)]
pub struct SpeedOptions {
    /// The process.
    #[command(flatten)]
    pub memory: MemoryOptions,
    /// Move this process, which lies on node 0 and has --size, instead of one that is started
    #[arg(long)]
    pub pid: Option<u32>,
    /// How many pairs of commands are compared
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..))]
    pub pairs: u32,
    /// Options for `nodeward move`, such as --jobs 2
    #[arg(last = true)]
    pub options: Vec<String>,
}

/// Options of `stall`.
#[derive(Clone, Debug, Group)]
pub struct StallOptions {
    /// The process.
    #[command(flatten)]
    pub memory: MemoryOptions,
    /// How many processes each command moves, in turns
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub turns: u32,
    /// How often each of them is moved
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub moves: u32,
    /// The time between two touches of the thread that measures
    #[arg(long, default_value = "50us", value_name = "TIME")]
    pub interval: String,
    /// How many pages it touches each time
    #[arg(long, default_value_t = 32, value_name = "PAGES")]
    pub burst: u32,
    /// The budget
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
    /// The machine, in one line
    #[arg(long, default_value = "8n 64c 2t 64GiB L1d:48KiB L1i:32KiB L2:2MiB L3:96MiB split")]
    pub machine: Synthetic,
    /// How often
    #[arg(long, default_value_t = 41, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
}

/// Options of `exchange`.
#[derive(Clone, Debug, Group)]
pub struct ExchangeOptions {
    /// How much memory each of the two processes has
    #[arg(long, default_value = "512MiB", value_parser = parse_bytes)]
    pub size: u64,
    /// How much memory is free on each node; pools of huge pages take the rest
    #[arg(long, default_value = "64MiB", value_parser = parse_bytes)]
    pub free: u64,
    /// How often
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
    /// Options for `nodeward move`, such as --jobs 2
    #[arg(last = true)]
    pub options: Vec<String>,
}

/// Options of `list`.
#[derive(Clone, Debug, Group)]
pub struct ListOptions {
    /// How much memory the process has
    #[arg(long, default_value = "4GiB", value_parser = parse_bytes)]
    pub size: u64,
    /// How many of its pages are named, in no order
    #[arg(long, default_value_t = 1_000_000)]
    pub addresses: usize,
    /// Name them by physical addresses
    #[arg(long)]
    pub physical: bool,
    /// How many pairs of commands are compared
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub pairs: u32,
    /// Options for `nodeward move`, such as --jobs 2
    #[arg(last = true)]
    pub options: Vec<String>,
}

/// Options of `loops`.
#[derive(Clone, Debug, Group)]
pub struct LoopsOptions {
    /// Pages that the process has mapped: 1 GiB of them at first
    #[arg(long, default_value_t = 262_144)]
    pub pages: usize,
    /// Addresses in the list: as many as one call took then
    #[arg(long, default_value_t = 2048)]
    pub addresses: usize,
    /// How often
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub runs: u32,
}

/// Options of `ledger`.
#[derive(Clone, Debug, Group)]
pub struct LedgerOptions {
    /// The process.
    #[command(flatten)]
    pub memory: MemoryOptions,
    /// What to judge by
    #[arg(long, value_enum, default_value_t = LedgerFigure::Cost)]
    pub figure: LedgerFigure,
    /// How often it is moved, and the move undone
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
    /// Processes that have them
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    pub processes: u32,
    /// How many of each process's threads work between two looks; the others sleep
    #[arg(long, value_enum, default_value_t = Awake::One)]
    pub awake: Awake,
    /// How many looks are measured, after two
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub looks: u32,
    /// The time between two looks, in milliseconds; what they cost counts as if it were a second
    #[arg(long, default_value_t = 1000)]
    pub pause_ms: u64,
}

/// Options of `crowd`.
#[derive(Clone, Debug, Group)]
pub struct CrowdOptions {
    /// How many threads it has
    #[arg(long)]
    pub threads: u32,
    /// How many of them work
    #[arg(long, value_enum)]
    pub awake: Awake,
}

/// Which threads of a process work, a little five times a second. The first one never does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Awake {
    /// None of them
    None,
    /// One of them
    One,
    /// All of them
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

    /// Goal: the machine of the promise is the one that is made.
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
