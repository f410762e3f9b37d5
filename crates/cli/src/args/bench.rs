//! Arguments of `bench`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use nodeward_model::{NodeId, units};
use nodeward_proof::{PoolContender, RegionCall};

use super::examples;
use super::output::{OutputArgs, ProgressArgs};
use crate::figures::{
    AgentFigure, BalanceFigure, CallsFigure, PageSizeValue, PagerFigure, PoolFigure,
};

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to measure.
    #[command(subcommand)]
    pub benchmark: Benchmark,
}

/// A command line of a benchmark by itself.
#[derive(Debug, Parser)]
pub struct BenchmarkLine {
    /// What to measure.
    #[command(subcommand)]
    pub benchmark: Benchmark,
}

/// What can be measured.
#[derive(Debug, Subcommand)]
pub enum Benchmark {
    /// Measure how fast the pager moves memory of this process while threads use it.
    ///
    /// The benchmark moves a region of its own memory to and fro between two nodes; on a machine
    /// with one node it moves it from its pages to other pages. Speeds are ratios to memcpy with as
    /// many threads, measured in turns with it. One thread writes all the time, another reads, and
    /// both check every word; the result says how long they waited for pages in flight. Needs four
    /// times --size of memory.
    #[command(after_long_help = examples::BENCH_PAGER)]
    Pager(BenchPagerArgs),
    /// Measure how fast page pools allocate and free, beside the kernel and other allocators.
    ///
    /// Each thread allocates pages, touches each once and frees all of them, again and again, as
    /// page_fault1 of will-it-scale does. Speeds are ratios within one run, measured in turns with
    /// mmap, touch and munmap, with mimalloc and with jemalloc. Then each pool is observed over
    /// time: how often a CPU's list goes to the zone, how many pages the pool holds while it works
    /// and while it rests, and how long lists become where some threads only allocate and others
    /// only free.
    #[command(after_long_help = examples::BENCH_POOL)]
    Pool(BenchPoolArgs),
    /// Measure what each call of a region costs, beside the kernel's calls that it cannot avoid.
    ///
    /// Threads make the same call again and again, each on regions of its own: for 4 KiB, 64 KiB
    /// and 2 MiB, with 1, 2 and 4 threads, on regions of 64 MiB and of 64 GiB, among 10,000
    /// regions, and while a region of 1 GiB of the same pager moves. The kernel's calls are timed
    /// in the same run, on memory that is set up the same way. Needs userfaultfd with UFFDIO_MOVE.
    #[command(after_long_help = examples::BENCH_CALLS)]
    Calls(BenchCallsArgs),
    /// Measure what the kernel's calls cost that no migration can do without, each alone.
    ///
    /// For base pages, by one and by several threads at once, each on memory of its own that no
    /// cache holds: UFFDIO_MOVE out and in, UFFDIO_COPY, freeing and populating, memcpy(3), and
    /// move_pages(2) where there are two nodes. `bench pager` has the sum beside each of its cells.
    /// Needs userfaultfd with UFFDIO_MOVE.
    #[command(after_long_help = examples::BENCH_LIMITS)]
    Limits(BenchLimitsArgs),
    /// Run benchmarks one after the other, and write one file with all results, to send to others.
    ///
    /// The file is JSON: the results of each with --json, what nodeward doctor says, and the
    /// machine's kernel, processor and nodes. It takes some minutes. Ctrl-C writes nothing.
    Report(BenchReportArgs),
    /// Measure the CPU time of one decision of the balancer, on generated machines of 1,024 CPUs
    Balance(BenchBalanceArgs),
    /// Measure how soon the agent answers while the balancer looks at all processes of this
    /// machine, and what that costs. Nothing is moved
    Agent(BenchAgentArgs),
}

/// Arguments of `bench report`.
#[derive(Debug, Args)]
pub struct BenchReportArgs {
    /// The file; - is standard output
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Run only these benchmarks
    #[arg(long, value_delimiter = ',', value_name = "BENCHMARKS",
          default_values = ["limits", "calls", "pager", "pool"])]
    pub only: Vec<ReportedBenchmark>,
    /// Measure as briefly as possible, some seconds in all; what is measured so means little
    #[arg(long)]
    pub smoke: bool,
}

/// A benchmark that is part of a report, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "they have the names of the commands")]
pub enum ReportedBenchmark {
    Limits,
    Calls,
    Pager,
    Pool,
}

impl ReportedBenchmark {
    /// Returns the name of its command.
    pub fn name(self) -> &'static str {
        match self {
            Self::Limits => "limits",
            Self::Calls => "calls",
            Self::Pager => "pager",
            Self::Pool => "pool",
        }
    }

    /// Returns the options with which it is brief.
    pub fn brief(self) -> &'static [&'static str] {
        match self {
            Self::Limits => &["--size", "4MiB", "--rounds", "1"],
            Self::Calls | Self::Pager | Self::Pool => &["--smoke"],
        }
    }
}

/// Arguments of `bench agent`.
#[derive(Debug, Args)]
pub struct BenchAgentArgs {
    /// The figure to measure, as a row of SPEC.md names it; printed as one line of JSON
    #[arg(long, value_name = "NAME")]
    pub figure: AgentFigure,
    /// Time to measure, such as 5s
    #[arg(long, value_name = "TIME", default_value = "5s",
          value_parser = units::parse_duration_ns)]
    pub time: u64,
}

/// Arguments of `bench balance`.
#[derive(Debug, Args)]
pub struct BenchBalanceArgs {
    /// The figure to measure, as a row of SPEC.md names it; printed as one line of JSON
    #[arg(long, value_name = "NAME")]
    pub figure: BalanceFigure,
    /// Number of generated machines; one decision is made on each
    #[arg(long, value_name = "N", default_value_t = 11,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
}

/// Arguments of `bench calls`.
#[derive(Debug, Args)]
pub struct BenchCallsArgs {
    /// Measure only these calls: one-way, recycled, there, exchange, pin, discard, commit,
    /// residency, list
    #[arg(long, value_delimiter = ',', value_name = "CALLS")]
    pub only: Vec<RegionCall>,
    /// Repetitions of each call on each thread [default: 2000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub samples: Option<u32>,
    /// Measure one figure, as a row of SPEC.md names it, and print it as one line of JSON; one of
    /// migrate-4k, migrate-64k, there, exchange, pin, discard, commit, list, p99, threads,
    /// threads-there, open
    #[arg(long, value_name = "NAME", conflicts_with_all = ["only", "json"])]
    pub figure: Option<CallsFigure>,
    /// Measure as briefly as possible, about a second in all
    #[arg(long)]
    pub smoke: bool,
    /// When to show progress.
    #[command(flatten)]
    pub progress: ProgressArgs,
    /// How to print the result.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `bench limits`.
#[derive(Debug, Args)]
pub struct BenchLimitsArgs {
    /// Memory that all threads of a measurement move together, at most 64 MiB each
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = units::parse_bytes)]
    pub size: u64,
    /// Numbers of threads [default: 1, 2, 4 and so on, up to the number of CPUs]
    #[arg(long, value_delimiter = ',', value_name = "LIST",
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Vec<u32>,
    /// How often each is measured; the median counts
    #[arg(long, value_name = "N", default_value_t = 9,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub rounds: u32,
    /// When to show progress.
    #[command(flatten)]
    pub progress: ProgressArgs,
    /// How to print the result.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `bench pager`.
#[derive(Debug, Args)]
pub struct BenchPagerArgs {
    /// Size of the region. The larger it is, the more seldom a thread touches a page in flight
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub size: Option<u64>,
    /// Measure only these page sizes
    #[arg(long, value_delimiter = ',', value_name = "PAGES", default_values = ["4k", "2m"])]
    pub only: Vec<PageSizeValue>,
    /// Numbers of threads that move pages [default: 1, 2, 4 and so on, up to the number of CPUs]
    #[arg(long, value_delimiter = ',', value_name = "LIST",
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub lanes: Vec<u32>,
    /// Time of each measurement [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration_ns)]
    pub time: Option<u64>,
    /// Stall budget of the measurements that have one: the longest time for which a thread may wait
    /// for a page
    #[arg(long, value_name = "TIME", default_value = "1ms",
          value_parser = units::parse_duration_ns)]
    pub stall: u64,
    /// The node where the region begins [default: the first with memory]
    #[arg(long, value_name = "NODE", value_parser = node)]
    pub from: Option<NodeId>,
    /// The node to which it moves [default: the next with memory]
    #[arg(long, value_name = "NODE", value_parser = node)]
    pub to: Option<NodeId>,
    /// Seed of the order in which threads write and read pages [default: another one each time]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Instead of the table: move this much memory in all, by every method of the pager, and check
    /// every word
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes,
          conflicts_with_all = ["only", "stall", "time", "svg"])]
    pub soak: Option<u64>,
    /// Measure one figure, as a row of SPEC.md names it, and print it as one line of JSON; such as
    /// 4k-one-way-1, 4k-one-way-1-limit, 4k-recycled-writer-2, 2m-recycled-alone-1, 4k-writer-rate,
    /// 4k-lazy, 4k-lanes, 4k-vmas, 4k-stall-p99, 4k-vs-kernel-recycled, lost
    #[arg(long, value_name = "NAME", conflicts_with_all = ["only", "lanes", "svg", "json"])]
    pub figure: Option<PagerFigure>,
    /// Measure as briefly as possible, about a second in all
    #[arg(long)]
    pub smoke: bool,
    /// Draw the table into this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// When to show progress.
    #[command(flatten)]
    pub progress: ProgressArgs,
    /// How to print the result.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `bench pool`.
#[derive(Debug, Args)]
pub struct BenchPoolArgs {
    /// Memory that each thread allocates at a time [default: 128MiB]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub bytes: Option<u64>,
    /// Numbers of threads [default: 1, 2, and two for each CPU]
    #[arg(long, value_delimiter = ',', value_name = "LIST",
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Vec<u32>,
    /// Orders of the runs that threads allocate; a run has 2^order pages
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_values = ["0", "9"],
          value_parser = clap::value_parser!(u32).range(0..=9))]
    pub orders: Vec<u32>,
    /// Back pools with huge pages for runs of all orders; without it only for order 9
    #[arg(long)]
    pub huge: bool,
    /// Measure only these contenders: kernel, mimalloc, jemalloc, pool-fixed, pool-depth,
    /// pool-events
    #[arg(long, value_delimiter = ',', value_name = "CONTENDERS")]
    pub only: Vec<PoolContender>,
    /// Time of each measurement [default: 500ms]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration_ns)]
    pub time: Option<u64>,
    /// Measure one figure, as a row of SPEC.md names it, and print it as one line of JSON; one of
    /// zone-visits-depth, zone-visits-events, vs-kernel, vs-kernel-zeroed, vs-mimalloc,
    /// vs-jemalloc, held, idle-periods, pure-high
    #[arg(long, value_name = "NAME",
          conflicts_with_all = ["only", "threads", "orders", "huge", "svg", "json"])]
    pub figure: Option<PoolFigure>,
    /// Measure as briefly as possible, some seconds in all
    #[arg(long)]
    pub smoke: bool,
    /// Draw the table, and the pools over time, into this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// When to show progress.
    #[command(flatten)]
    pub progress: ProgressArgs,
    /// How to print the result.
    #[command(flatten)]
    pub output: OutputArgs,
}

fn node(text: &str) -> Result<NodeId, std::num::ParseIntError> {
    text.parse().map(NodeId)
}
