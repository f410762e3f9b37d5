//! Arguments of `sim compare`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use nodeward_experiments::compare::CASES;

use super::output::{OutputArgs, ProgressArgs};
use super::parsers::virtual_ns;
use crate::figures::CompareFigure;

/// Arguments of `sim compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Loads to run; all of them if none is given
    #[arg(value_name = "CASE",
          value_parser = PossibleValuesParser::new(CASES.map(|case| case.name)))]
    pub cases: Vec<String>,
    /// Simulate this much virtual time of each load [default: as the scenario says]
    #[arg(long, value_name = "TIME", value_parser = virtual_ns)]
    pub limit: Option<u64>,
    /// Number of simulations that run at the same time [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Draw the share of local accesses over time into this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Write the documentation page balance-sim.md and its pictures into this directory
    #[arg(long, value_name = "DIR")]
    pub docs: Option<PathBuf>,
    /// Measure one figure, as a row of SPEC.md names it, and print it as one line of JSON
    #[arg(long, value_name = "NAME", conflicts_with_all = ["plot", "docs", "json"])]
    pub figure: Option<CompareFigure>,
    /// With --figure static: number of generated machines
    #[arg(long, value_name = "N", default_value_t = 100, requires = "figure")]
    pub seeds: u64,
    /// With --figure static: seed of the first machine
    #[arg(long, value_name = "N", default_value_t = 0, requires = "figure")]
    pub from: u64,
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
