//! `[move]`: settings of moves.

use std::sync::Arc;

use nodeward_machine::{Error, Machine};
use nodeward_model::{Nodemask, Topology};
use nodeward_mover::{Jobs, MoveOrder, MoveRequest, Selection};
use nodeward_policy::workers;
use serde::Deserialize;

use super::values::{JobsChoice, RateChoice, StallChoice};
use crate::message::help::PACE;

/// Settings of moves in one layer. The layer below decides what this one leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[command(next_help_heading = PACE)]
pub struct MoveLayer {
    /// Number of workers, 1 to 1024, or auto: as many as pay off [default: auto]
    #[arg(long, value_name = "N|auto")]
    pub jobs: Option<JobsChoice>,

    /// Move at most this much per second, such as 500MB/s [default: unlimited]
    #[arg(long, value_name = "RATE")]
    pub rate: Option<RateChoice>,

    /// The longest time for which the kernel may hold pages while it moves them, such as 1ms; a
    /// thread that touches a held page waits [default: unlimited]
    #[arg(long, value_name = "TIME")]
    pub stall: Option<StallChoice>,
}

impl MoveLayer {
    /// Returns this layer with missing values taken from the one below.
    pub fn over(self, below: Self) -> Self {
        Self {
            jobs: self.jobs.or(below.jobs),
            rate: self.rate.or(below.rate),
            stall: self.stall.or(below.stall),
        }
    }
}

/// Settings of a move, with defaults for missing values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveSettings {
    /// Number of workers.
    pub jobs: Jobs,
    /// Bytes per second; unlimited if `None`.
    pub rate_bytes_per_s: Option<u64>,
    /// Maximum time for which the kernel holds pages, in nanoseconds; unlimited if `None`.
    pub stall_ns: Option<u64>,
}

impl MoveSettings {
    /// Returns the settings of a layer, with defaults for missing values.
    pub fn resolve(layer: MoveLayer) -> Self {
        Self {
            jobs: layer.jobs.unwrap_or_default().0,
            rate_bytes_per_s: layer.rate.unwrap_or_default().0,
            stall_ns: layer.stall.unwrap_or_default().0,
        }
    }

    /// Creates a request for a move by workers near the destinations; `orders` has those of each
    /// process.
    ///
    /// # Errors
    /// If the machine does not say on which CPUs this process may run.
    pub fn request(
        &self,
        machine: &dyn Machine,
        topology: &Topology,
        orders: Vec<Arc<[MoveOrder]>>,
        selection: Selection,
    ) -> Result<MoveRequest, Error> {
        let all = orders.iter().flat_map(|orders| orders.iter());
        let to: Nodemask = all.flat_map(|order| order.pairs.iter()).map(|(_, to)| to).collect();
        Ok(MoveRequest {
            cpus: workers::worker_cpus(topology, &to, &machine.usable_cpus()?),
            orders,
            selection,
            jobs: self.jobs,
            rate_bytes_per_s: self.rate_bytes_per_s,
            stall_ns: self.stall_ns,
            split_huge: false,
        })
    }
}
