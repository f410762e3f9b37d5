//! How many simulations run at the same time, for the verbs that run many.

use std::num::NonZero;
use std::thread::available_parallelism;

use clap::Args;

/// How many simulations run at the same time.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct SimulationJobs {
    /// Number of simulations that run at the same time [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
}

impl SimulationJobs {
    /// Returns their number; without the argument that of the CPUs that this process may use.
    pub fn count(self) -> usize {
        let here = || available_parallelism().map_or(1, NonZero::get);
        self.jobs.map_or_else(here, usize::from)
    }
}
