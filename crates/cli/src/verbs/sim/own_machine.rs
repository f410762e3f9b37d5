//! `nodeward sim --of-this-machine`: a scenario of this machine, to begin with.

use std::path::Path;

use anyhow::Result;
use nodeward_linux::sysfs;
use nodeward_model::Topology;
use nodeward_proof::line_latencies;

use crate::message::exit::Exit;
use crate::output;
use crate::output::sim::own_machine;

/// Bytes of each node's memory that are read at least, so that little of them is in caches...
const BYTES_MIN: u64 = 64 << 20;
/// ...and no more than this.
const BYTES_MAX: u64 = 1 << 30;

/// Prints the scenario.
pub fn run() -> Result<Exit> {
    let topology = sysfs::read_topology(Path::new("/"))?;
    say!("nodeward: measuring how long nodes wait for memory; it should be quiet here");
    let latencies = line_latencies(&topology, bytes(&topology));
    output::print(&own_machine::scenario(&topology, &latencies))?;
    Ok(Exit::Done)
}

/// Four times the largest cache, and no more than an eighth of the smallest free memory.
fn bytes(topology: &Topology) -> u64 {
    let cache = topology.caches.iter().filter_map(|cache| cache.size_bytes).max().unwrap_or(0);
    let free = topology.nodes.values().filter_map(|node| node.free_bytes).filter(|&free| free > 0);
    let room = free.min().unwrap_or(BYTES_MAX) / 8;
    (4 * cache).clamp(BYTES_MIN, BYTES_MAX).min(room)
}
