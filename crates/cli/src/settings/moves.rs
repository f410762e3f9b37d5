//! `[move]`: settings of moves.

use std::sync::Arc;

use nodeward_machine::{Error, Machine};
use nodeward_model::{Nodemask, Topology};
use nodeward_mover::{Jobs, MoveOrder, MoveRequest, Selection};
use nodeward_policy::workers;
use serde::Deserialize;

use super::values::{JobsChoice, RateChoice, StallChoice};
use crate::message::help::PACE;

/// How a move is done. One layer: what is absent is decided by the layer below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, clap::Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[command(next_help_heading = PACE)]
pub struct MoveLayer {
    /// Workers that move pages: a number, or auto for as many as pay
    #[arg(long, value_name = "N|auto")]
    pub jobs: Option<JobsChoice>,

    /// Move at most this much per second, such as 500MB/s, or unlimited
    #[arg(long, value_name = "RATE")]
    pub rate: Option<RateChoice>,

    /// Hold pages for no longer than this at a time, such as 1ms, or unlimited
    #[arg(long, value_name = "TIME")]
    pub stall: Option<StallChoice>,
}

impl MoveLayer {
    /// Returns this layer with gaps filled from the one below.
    pub fn over(self, below: Self) -> Self {
        Self {
            jobs: self.jobs.or(below.jobs),
            rate: self.rate.or(below.rate),
            stall: self.stall.or(below.stall),
        }
    }
}

/// Settings of a move, decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveSettings {
    /// Number of workers.
    pub jobs: Jobs,
    /// Bytes per second; unlimited if `None`.
    pub rate_bytes_per_s: Option<u64>,
    /// Maximum time that pages are held, in nanoseconds; unlimited if `None`.
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

    /// Creates a request for a move by workers near the destinations; `orders` are those of each
    /// process.
    ///
    /// # Errors
    /// If the machine does not tell the CPUs that we may run on.
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
        })
    }
}
