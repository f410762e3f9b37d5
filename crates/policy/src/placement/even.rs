//! Even memory: which pages of an entity or of a segment go from node to node until several nodes
//! have as much of it each.

use super::cost_model::Transfer;
use super::entity::movable_on;
use super::node_table::{NodeIndex, NodeTable};
use super::rules::UNEVEN_PART;

/// Returns the moves, with their pages, that leave each node of `memory` with as much as any other,
/// in whole huge pages: a move of a part would bring the rest of its huge page along, and a later
/// move would take it back. A node that is kept empty keeps nothing.
pub(super) fn transfers(
    nodes: &NodeTable,
    movable: &[u64],
    memory: &[NodeIndex],
) -> Vec<(Transfer, u64)> {
    let on_nodes = || movable_on(nodes, movable);
    let all: u64 = on_nodes().map(|(_, pages)| pages).sum();
    let part = all / (memory.len() as u64).max(1);
    let huge = nodes.huge_pages();
    let slack = (part / UNEVEN_PART).max(huge);
    let lack = |&to: &NodeIndex| (to, part.saturating_sub(movable[to]));
    let mut lacking: Vec<(NodeIndex, u64)> = memory.iter().map(lack).collect();
    let mut transfers = Vec::new();
    for (from, pages) in on_nodes() {
        let (mut rest, unit) = match memory.contains(&from) {
            true if pages > part + slack => ((pages - part) / huge * huge, huge),
            true => (0, huge),
            false => (pages, 1),
        };
        for (to, lacks) in &mut lacking {
            let pages = rest.min((*lacks + unit / 2) / unit * unit);
            if pages > 0 {
                transfers.push((Transfer { from, to: *to }, pages));
                (rest, *lacks) = (rest - pages, lacks.saturating_sub(pages));
            }
        }
        let roomiest = memory.iter().copied().min_by_key(|&to| movable[to]);
        if let Some(to) = roomiest.filter(|_| rest > 0 && nodes.is_kept_empty(from)) {
            transfers.push((Transfer { from, to }, rest));
        }
    }
    transfers
}
