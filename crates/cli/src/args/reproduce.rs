//! Arguments of `reproduce`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use nodeward_experiments::reproduce::documents;

use super::output::{OutputArgs, ProgressArgs};
use super::simulation_jobs::SimulationJobs;
use crate::figures::ReproduceFigure;

/// Arguments of `reproduce`.
#[derive(Debug, Args)]
pub struct ReproduceArgs {
    /// Tables to compute; all of them if none is given
    #[arg(value_name = "TABLE", value_parser = PossibleValuesParser::new(documents::NAMES))]
    pub tables: Vec<String>,
    /// Draw the documents' figures, ours, and what nodeward improves, into this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Write the documentation page reproduce.md and its pictures into this directory
    #[arg(long, value_name = "DIR", conflicts_with = "tables")]
    pub docs: Option<PathBuf>,
    /// How many simulations run at the same time.
    #[command(flatten)]
    pub jobs: SimulationJobs,
    /// Compute one figure, as a row of SPEC.md names it, and print it as one line of JSON
    #[arg(long, value_name = "NAME", conflicts_with_all = ["plot", "docs", "json"])]
    pub figure: Option<ReproduceFigure>,
    /// When to show progress.
    #[command(flatten)]
    pub progress: ProgressArgs,
    /// How to print the result.
    #[command(flatten)]
    pub output: OutputArgs,
}
