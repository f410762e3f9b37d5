//! Arguments of `sim scaling`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use nodeward_experiments::scaling::CURVES;

use super::output::{OutputArgs, ProgressArgs};
use super::simulation_jobs::SimulationJobs;

/// Arguments of `sim scaling`.
#[derive(Debug, Args)]
pub struct ScalingArgs {
    /// Curves to simulate [default: all]
    #[arg(value_name = "CURVE", value_parser = curve_parser())]
    pub curves: Vec<String>,
    /// Numbers of workers, or of copying threads, as far as the machine has CPUs
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,2,4,8,16,32,64",
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub counts: Vec<u32>,
    /// How many simulations run at the same time.
    #[command(flatten)]
    pub jobs: SimulationJobs,
    /// Draw the curves into this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Write the page of the documentation into this directory
    #[arg(long, value_name = "DIRECTORY")]
    pub docs: Option<PathBuf>,
    /// Progress.
    #[command(flatten)]
    pub progress: ProgressArgs,
    /// Output.
    #[command(flatten)]
    pub output: OutputArgs,
}

fn curve_parser() -> PossibleValuesParser {
    PossibleValuesParser::new(CURVES.iter().map(|curve| curve.name))
}
