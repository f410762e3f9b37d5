//! Draws the parameters of moves in rounds: destinations, workers and limits.

use std::fmt;

use nodeward_model::NodeId;
use nodeward_model::units::{format_bytes, format_ns};
use nodeward_mover::Jobs;
use nodeward_scenario::Scenario;

use super::scenario::with_memory;
use crate::swarm::SeededRng;

/// Parameters of the moves in rounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundPolicy {
    /// The wanted nodes of processes, in turn by their pids.
    pub wanted_nodes: Vec<NodeId>,
    /// Number of workers.
    pub jobs: Jobs,
    /// Maximum rate, in bytes per second.
    pub rate_bytes_per_s: Option<u64>,
    /// Maximum time that pages are held, in nanoseconds.
    pub stall_ns: Option<u64>,
    /// Whether one call of the mover moves all processes, or one call each.
    pub together: bool,
    /// Time between two rounds, in nanoseconds.
    pub pause_ns: u64,
}

/// Range of the time to move all memory at a drawn rate, in nanoseconds.
const WHOLE_MOVE_NS: (u64, u64) = (1_000_000, 40_000_000);

impl RoundPolicy {
    /// Draws the parameters for a scenario that has memory.
    pub(super) fn generate(chance: &mut SeededRng, scenario: &Scenario) -> Self {
        let nodes = with_memory(&scenario.machine);
        let bytes = |node: &NodeId| {
            let index = scenario.machine.index_of(*node);
            index.map(|index| scenario.machine.nodes[index].memory_bytes)
        };
        // The larger of two, so that there is often room.
        let pairs = (0..1 + chance.below(4)).map(|_| [chance.pick(&nodes), chance.pick(&nodes)]);
        let pairs: Vec<_> = pairs.collect();
        let wanted = pairs.iter().filter_map(|pair| pair.iter().copied().max_by_key(bytes));
        let page_bytes = scenario.machine.params.page_bytes;
        let mapped = scenario.workloads.iter().filter_map(|each| each.mapped_bytes(page_bytes));
        let per_ns = u128::from(mapped.sum::<u64>()) * 1_000_000_000;
        let rate = per_ns / u128::from(chance.near_bounds(WHOLE_MOVE_NS));
        let jobs = [1, 1, 2, 3, 4].map(Jobs::Fixed);
        Self {
            wanted_nodes: wanted.collect(),
            jobs: if chance.one_in(6) { Jobs::Auto } else { chance.pick(&jobs) },
            rate_bytes_per_s: chance.one_in(3).then(|| u64::try_from(rate).unwrap_or(u64::MAX)),
            stall_ns: chance.one_in(3).then(|| chance.pick(&[100_000, 1_000_000, 10_000_000])),
            together: chance.one_in(2),
            pause_ns: chance.near_bounds((1_000, 4_000_000)),
        }
    }

    /// Returns the wanted node of a process.
    pub fn wanted_node(&self, pid: u32) -> NodeId {
        self.wanted_nodes[pid as usize % self.wanted_nodes.len()]
    }
}

impl fmt::Display for RoundPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<_> = self.wanted_nodes.iter().map(|node| node.0.to_string()).collect();
        write!(f, "rounds to nodes {} in turn, ", nodes.join(", "))?;
        match self.jobs {
            Jobs::Auto => write!(f, "as many workers as pay")?,
            Jobs::Fixed(jobs) => write!(f, "{jobs} workers")?,
        }
        if let Some(rate) = self.rate_bytes_per_s {
            write!(f, ", {}/s at most", format_bytes(rate))?;
        }
        if let Some(ns) = self.stall_ns {
            write!(f, ", pages held for {} at most", format_ns(ns))?;
        }
        let how = if self.together { "together" } else { "one by one" };
        write!(f, ", processes {how}, every {}", format_ns(self.pause_ns))
    }
}
