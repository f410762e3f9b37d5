//! Arguments of `sim compare`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use nodeward_experiments::compare::BalancerKind;

use super::output::{OutputArgs, ProgressArgs};
use super::parsers::{key_value, seed, seed_count, virtual_ns};
use super::simulation_jobs::SimulationJobs;
use crate::figures::CompareFigure;

/// Arguments of `sim compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Loads to run: those of the documentation by name, and scenarios, built-in ones by name or
    /// your own by path [default: all of the documentation]
    #[arg(value_name = "LOAD")]
    pub loads: Vec<String>,
    /// Run them under these only [default: those that make sense]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = balancer(),
          conflicts_with = "figure")]
    pub balancers: Vec<BalancerKind>,
    /// Change a value of the scenarios, such as machine.latency=100ns; may be repeated. Loads of
    /// the documentation then have no goals
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value, conflicts_with = "figure")]
    pub set: Vec<(String, String)>,
    /// Let nodeward decide by the settings under [balance] in this file, such as an
    /// /etc/nodeward.toml, in place of the defaults. Loads of the documentation then have no goals
    #[arg(long, value_name = "FILE", conflicts_with_all = ["figure", "docs"])]
    pub settings: Option<PathBuf>,
    /// Simulate this much virtual time of each load [default: as the scenario says]
    #[arg(long, value_name = "TIME", value_parser = virtual_ns)]
    pub limit: Option<u64>,
    /// How many simulations run at the same time.
    #[command(flatten)]
    pub jobs: SimulationJobs,
    /// Draw the share of local accesses over time into this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Write the documentation page balance-sim.md and its pictures into this directory
    #[arg(long, value_name = "DIR", conflicts_with_all = ["set", "balancers", "seeds", "from"])]
    pub docs: Option<PathBuf>,
    /// Measure one figure, as a row of SPEC.md names it, and print it as one line of JSON
    #[arg(long, value_name = "NAME", conflicts_with_all = ["plot", "docs", "json"])]
    pub figure: Option<CompareFigure>,
    /// Number of runs of each load under each balancer, each with a seed of its own; the table then
    /// has medians, the least and the most. With --figure static: number of generated machines
    /// [default: 1; with --figure static: 100]
    #[arg(long, value_name = "N", value_parser = seed_count())]
    pub seeds: Option<u64>,
    /// The first seed [default: 1; with --figure static: 0]
    #[arg(long, value_name = "N", value_parser = seed())]
    pub from: Option<u64>,
    /// With --figure static: print the machines and their loads as scenarios; run nothing
    #[arg(long, requires = "figure", conflicts_with = "jobs")]
    pub print: bool,
    /// When to show progress.
    #[command(flatten)]
    pub progress: ProgressArgs,
    /// How to print the result.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Reads the word for a balancer.
fn balancer() -> impl TypedValueParser<Value = BalancerKind> {
    PossibleValuesParser::new(BalancerKind::WORDS.map(|(word, _)| word)).try_map(|word| {
        let found = BalancerKind::WORDS.into_iter().find(|(known, _)| *known == word);
        found.map(|(_, by)| by).ok_or("no balancer of that name")
    })
}
