//! Arguments of `bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use nodeward_model::{NodeId, units};
use nodeward_proof::PoolContender;

use super::examples;
use super::output::{OutputArgs, ProgressArgs};
use crate::figures::{BalanceFigure, PageSizeValue, PagerFigure, PoolFigure};

/// What `bench` is told.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to measure.
    #[command(subcommand)]
    pub benchmark: Benchmark,
}

/// What can be measured.
#[derive(Debug, Subcommand)]
pub enum Benchmark {
    /// Measure how fast the pager moves live memory of a process, and that nothing is lost.
    ///
    /// A region of this program's own memory is moved to and fro between two nodes, or on a machine
    /// with one node from its pages to others. Speeds are ratios against memcpy with as many
    /// threads, in turns with it. A thread writes all the time, another reads, and both check every
    /// word; how long they wait for pages in flight is told. Takes four times --size of memory.
    #[command(after_long_help = examples::BENCH_PAGER)]
    Pager(BenchPagerArgs),
    /// Measure how fast page pools hand out and take back, against the kernel and other allocators.
    ///
    /// Each thread takes pages, touches each once and frees them all, again and again, as
    /// page_fault1 of will-it-scale does. Speeds are ratios in one run, in turns with mmap, touch
    /// and munmap, with mimalloc and with jemalloc. Then each pool is looked at over time: how
    /// often it goes to its zone, what it holds while it works and when it rests, and what its
    /// lists do between threads that only allocate and threads that only free.
    #[command(after_long_help = examples::BENCH_POOL)]
    Pool(BenchPoolArgs),
    /// Measure how long the balancer takes to decide, on a machine of 1,024 CPUs on paper
    Balance(BenchBalanceArgs),
}

/// What `bench balance` is told.
#[derive(Debug, Args)]
pub struct BenchBalanceArgs {
    /// The number to measure, printed as one line of JSON: a row of SPEC.md
    #[arg(long, value_name = "NAME")]
    pub figure: BalanceFigure,
    /// Machines that are decided about, one after the other
    #[arg(long, value_name = "N", default_value_t = 11,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
}

/// What `bench pager` is told.
#[derive(Debug, Args)]
pub struct BenchPagerArgs {
    /// The size of the region: the larger, the more seldom a thread meets a page in flight
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub size: Option<u64>,
    /// Only pages of these sizes
    #[arg(long, value_delimiter = ',', value_name = "PAGES", default_values = ["4k", "2m"])]
    pub only: Vec<PageSizeValue>,
    /// Numbers of threads that move pages [default: 1, 2, 4 and so on, as many as there are CPUs]
    #[arg(long, value_delimiter = ',', value_name = "LIST",
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub lanes: Vec<u32>,
    /// How long each number is measured [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration_ns)]
    pub time: Option<u64>,
    /// The longest wait that is allowed where one is
    #[arg(long, value_name = "TIME", default_value = "1ms",
          value_parser = units::parse_duration_ns)]
    pub stall: u64,
    /// The node to begin at [default: the first with memory]
    #[arg(long, value_name = "NODE", value_parser = node)]
    pub from: Option<NodeId>,
    /// The node to move to [default: the next with memory]
    #[arg(long, value_name = "NODE", value_parser = node)]
    pub to: Option<NodeId>,
    /// Decides which pages are written and read when [default: another one each time]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Instead of the table: move so much in all, in every way there is, and check every word
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes,
          conflicts_with_all = ["only", "stall", "time", "svg"])]
    pub soak: Option<u64>,
    /// Measure one number and print it as one line of JSON: a row of SPEC.md, such as 4k-one-way-1,
    /// 4k-recycled-writer-2, 2m-recycled-alone-1, 4k-writer-rate, 4k-lazy, 4k-lanes, 4k-vmas,
    /// 4k-stall-p99, 4k-vs-kernel-recycled, lost
    #[arg(long, value_name = "NAME", conflicts_with_all = ["only", "lanes", "svg", "json"])]
    pub figure: Option<PagerFigure>,
    /// The least that still measures something, in a second
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

/// What `bench pool` is told.
#[derive(Debug, Args)]
pub struct BenchPoolArgs {
    /// What each thread takes at a time [default: 128MiB]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub bytes: Option<u64>,
    /// Numbers of threads [default: 1, 2, and two for each CPU]
    #[arg(long, value_delimiter = ',', value_name = "LIST",
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub threads: Vec<u32>,
    /// Orders of the runs that are taken: of 2^order pages
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_values = ["0", "9"],
          value_parser = clap::value_parser!(u32).range(0..=9))]
    pub orders: Vec<u32>,
    /// Give pools huge pages for runs of all orders, and not only for order 9
    #[arg(long)]
    pub huge: bool,
    /// Only these: kernel, mimalloc, jemalloc, pool-fixed, pool-depth, pool-events
    #[arg(long, value_delimiter = ',', value_name = "CONTENDERS")]
    pub only: Vec<PoolContender>,
    /// How long each number is measured [default: 500ms]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration_ns)]
    pub time: Option<u64>,
    /// Measure one number and print it as one line of JSON: a row of SPEC.md, one of
    /// zone-visits-depth, zone-visits-events, vs-kernel, vs-kernel-zeroed, vs-mimalloc,
    /// vs-jemalloc, held, idle-periods, pure-high
    #[arg(long, value_name = "NAME",
          conflicts_with_all = ["only", "threads", "orders", "huge", "svg", "json"])]
    pub figure: Option<PoolFigure>,
    /// The least that still measures something, in seconds
    #[arg(long)]
    pub smoke: bool,
    /// Draw the table and the pools over time into this file, as SVG
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
