//! Memory controllers: which of them deliver all that they can, and which have time for more.
//! Stages 5 and 8 ask.

use super::node_table::{NodeIndex, NodeTable};
use super::round::Round;
use super::state::Homes;

/// Returns the nodes whose threads have had a saturated memory controller for long enough.
pub(super) fn saturated_nodes(round: &Round, homes: &mut Homes) -> Vec<NodeIndex> {
    let most = round.rules.traffic_ppm_max;
    let traffic = |node| traffic_ppm(round.nodes, round.nodes.memory_node(node)?);
    round.lasting(&mut homes.saturated, |node| traffic(node).is_some_and(|ppm| ppm >= most))
}

/// Returns whether the memory controller of a node has time for more.
pub(super) fn has_time(nodes: &NodeTable, node: NodeIndex) -> bool {
    traffic_ppm(nodes, node).is_some_and(|ppm| ppm < nodes.rules.traffic_ppm_low())
}

/// Returns what the memory controller of a node delivers, in millionths of its maximum, if that is
/// known.
pub(super) fn traffic_ppm(nodes: &NodeTable, node: NodeIndex) -> Option<u32> {
    nodes.state(node).traffic_ppm
}
