//! Arguments of `sim sweep`.

use std::path::PathBuf;

use clap::Args;
use nodeward_scenario::{Axis, Seeds, Shard};

use super::output::{OutputArgs, ProgressArgs};
use super::parsers::{key_value, virtual_ns};
use super::simulation_jobs::SimulationJobs;

/// Arguments of `sim sweep`.
#[derive(Debug, Args)]
#[command(override_usage = "nodeward sim sweep [OPTIONS] SCENARIO --grid KEY=VALUE,...
       nodeward sim sweep --merge FILE... [--out FILE]")]
pub struct SweepArgs {
    /// A built-in scenario, by name, or the path of a scenario file
    #[arg(value_name = "SCENARIO", required_unless_present = "merge")]
    pub scenario: Option<String>,
    /// A key of the scenario, as --set takes it, and its values: a list, a range such as 1..8,
    /// 0..100ns+20ns or 1MiB..16MiB*2, or both. May be repeated; every combination of values is a
    /// point
    #[arg(long, value_name = "KEY=VALUES")]
    pub grid: Vec<Axis>,
    /// Simulate each point with each of these seeds, such as 1-5
    #[arg(long, value_name = "LIST", default_value = "1")]
    pub seeds: Seeds,
    /// Change a value of the scenario in all points; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Simulate this much virtual time [default: as the scenario says]
    #[arg(long, value_name = "TIME", value_parser = virtual_ns)]
    pub limit: Option<u64>,
    /// Figures to report for each point: groups (run, workloads, moves, latencies, time, counters,
    /// all) or single figures, such as done_per_s or stream.local_ppm [default: some of each group]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub measure: Vec<String>,
    /// How many simulations run at the same time.
    #[command(flatten)]
    pub jobs: SimulationJobs,
    /// Write a row for each point into this file as soon as it is computed: FILE.csv, or FILE.jsonl
    /// or FILE.json with one object a line
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Continue after the last row in the file of --out; the file may be missing
    #[arg(long, requires = "out")]
    pub resume: bool,
    /// Simulate only the Ith of N parts of about equal size
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Print the points; simulate nothing
    #[arg(long, conflicts_with_all = ["out", "plot"])]
    pub dry_run: bool,
    /// Draw the first figure over the first key into this file, as SVG: one line for each
    /// combination of the other keys, each point the mean over all seeds
    #[arg(long, value_name = "FILE", requires = "grid", conflicts_with = "shard")]
    pub plot: Option<PathBuf>,
    /// Join the files of all shards into the file that one sweep would have written
    #[arg(long, value_name = "FILE", num_args = 1..,
          conflicts_with_all = ["scenario", "grid", "seeds", "set", "limit", "measure", "jobs",
                                "resume", "shard", "dry_run", "plot", "json"])]
    pub merge: Vec<PathBuf>,
    /// When to show progress.
    #[command(flatten)]
    pub progress: ProgressArgs,
    /// How to print the result.
    #[command(flatten)]
    pub output: OutputArgs,
}
