//! Threads and nodes of a measurement for which none are named.

use nodeward_model::{NodeId, Topology};
use nodeward_proof::NodeRoute;

/// Returns 1, 2, 4 and so on, up to the number of CPUs.
pub fn doublings(cpus: u32) -> Vec<u32> {
    (0..32).map(|power| 1 << power).take_while(|&threads| threads <= cpus).collect()
}

/// Returns the first two nodes with memory; the only one twice.
pub fn first_nodes(topology: &Topology) -> NodeRoute {
    let with_memory = topology.nodes_with_memory();
    let from = with_memory.first().unwrap_or(NodeId(0));
    NodeRoute { from, to: with_memory.iter().nth(1).unwrap_or(from) }
}
