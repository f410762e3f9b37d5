//! Evens out memory over nodes with as few page moves as possible.
//!
//! Each node gets a quota by its weight. What is within the quota stays; only the excess moves, in
//! blocks. Blocks that go and blocks that stay alternate over the addresses, and so do the
//! destinations, so that neighbours in memory use all nodes. Nodes without a weight keep nothing.

mod alternation;
mod block;
mod quotas;
mod weights;

use std::collections::BTreeMap;

use nodeward_model::NodeId;

use alternation::{destinations, leaving};
pub use block::{BlockMove, BlockPages};
use quotas::{QuotaTransfer, quotas};
pub use weights::{Weights, ZeroWeight};

/// Returns the moves that even out one mapping or segment, in the order of its blocks.
///
/// `blocks` are in the order of addresses and hold up to `block_pages` pages each; a block that
/// begins with a larger folio holds more. `room` is the number of further pages that each node can
/// take; a node that is missing has no limit. What finds no room stays where it is. If the blocks
/// are on one node each, every node ends less than one block from its quota.
pub fn plan_spread(
    blocks: &[BlockPages],
    block_pages: u64,
    weights: &Weights,
    room: &BTreeMap<NodeId, u64>,
) -> Vec<BlockMove> {
    let have = total(blocks);
    let quotas = quotas(&have, weights, room);
    let transfer = QuotaTransfer::new(&have, &quotas, block_pages.max(1));
    let parts = leaving(blocks, &have, &transfer.give);
    destinations(&parts, &transfer.take, block_pages.max(1))
}

/// Returns the pages of all blocks by node.
pub fn total(blocks: &[BlockPages]) -> BlockPages {
    let mut total = BlockPages::new();
    for (&node, &pages) in blocks.iter().flatten() {
        *total.entry(node).or_default() += pages;
    }
    total
}

#[cfg(test)]
mod tests;
