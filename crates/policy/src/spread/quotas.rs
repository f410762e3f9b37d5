//! The number of pages that each node keeps, gives and takes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use nodeward_model::NodeId;

use super::block::BlockPages;
use super::weights::Weights;

/// Returns the quota of each node with a weight, in pages: its share by weight, but no more than it
/// has and has room for. The others share what one cannot take.
pub fn quotas(have: &BlockPages, weights: &Weights, room: &BTreeMap<NodeId, u64>) -> BlockPages {
    let limit = |node: NodeId| match room.get(&node) {
        Some(&room) => pages_on(have, node).saturating_add(room),
        None => u64::MAX,
    };
    let mut open: BTreeMap<NodeId, u32> = weights.iter().collect();
    let mut left: u64 = have.values().sum();
    let mut quotas = BlockPages::new();
    loop {
        let shares = shares(left, &open);
        let is_over = |&(node, share): &(NodeId, u64)| share > limit(node);
        let over: Vec<_> =
            shares.iter().map(|(&node, &share)| (node, share)).filter(is_over).collect();
        if over.is_empty() {
            quotas.extend(shares);
            return quotas;
        }
        for (node, _) in over {
            open.remove(&node);
            left -= limit(node);
            quotas.insert(node, limit(node));
        }
    }
}

/// Divides pages by weight. Each share is less than a page from the exact one.
fn shares(pages: u64, weights: &BTreeMap<NodeId, u32>) -> BlockPages {
    let whole: u128 = weights.values().map(|&weight| u128::from(weight)).sum();
    let mut weight_so_far = 0;
    let mut given = 0;
    let share = |(&node, &weight): (&NodeId, &u32)| {
        weight_so_far += u128::from(weight);
        let due = u64::try_from(u128::from(pages) * weight_so_far / whole).unwrap_or(pages);
        let share = due - given;
        given = due;
        (node, share)
    };
    weights.iter().map(share).collect()
}

/// The pages that nodes give and take. Both sums are equal; amounts are in whole blocks as far as
/// pages of nodes without a weight permit.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct QuotaTransfer {
    /// The pages that nodes give.
    pub give: BlockPages,
    /// The pages that nodes take.
    pub take: BlockPages,
}

impl QuotaTransfer {
    /// Returns the transfer between what nodes have and their quotas. A node without a quota gives
    /// all that others have room for; the excess of the others is rounded to blocks.
    pub fn new(have: &BlockPages, quotas: &BlockPages, block_pages: u64) -> Self {
        let lacks = |(&node, &quota): (&NodeId, &u64)| {
            Some((node, quota.checked_sub(pages_on(have, node))?))
        };
        let lack: BlockPages =
            quotas.iter().filter_map(lacks).filter(|(_, lack)| *lack > 0).collect();
        let is_outside = |node: &NodeId| !quotas.contains_key(node);
        let outside: BlockPages = have
            .iter()
            .filter(|(node, _)| is_outside(node))
            .map(|(&n, &pages)| (n, pages))
            .collect();
        let exceeds = |(&node, &quota): (&NodeId, &u64)| {
            Some((node, pages_on(have, node).checked_sub(quota)?))
        };
        let excess: BlockPages = quotas.iter().filter_map(exceeds).collect();
        let [room, outside_pages, excess_pages] =
            [&lack, &outside, &excess].map(|pages| pages.values().sum::<u64>());
        let pages = match room < outside_pages + excess_pages {
            true => room,
            false => outside_pages + nearest_multiple(excess_pages, block_pages),
        };
        let mut left = pages;
        let mut give = BlockPages::new();
        for (node, pages) in outside {
            give.insert(node, pages.min(left));
            left -= pages.min(left);
        }
        give.extend(in_blocks(&excess, left, block_pages));
        Self { give, take: in_blocks(&lack, pages, block_pages) }
    }
}

/// Rounds to a multiple, a half downwards.
fn nearest_multiple(pages: u64, block_pages: u64) -> u64 {
    (pages + (block_pages - 1) / 2) / block_pages * block_pages
}

/// Changes amounts to whole blocks so that their sum is `sum`: rounds them down, and adds what is
/// left to those that lost most.
fn in_blocks(amounts: &BlockPages, sum: u64, block_pages: u64) -> BlockPages {
    let mut left = sum;
    let mut rounded = BlockPages::new();
    for (&node, &amount) in amounts {
        let down = (amount / block_pages * block_pages).min(left);
        left -= down;
        rounded.insert(node, down);
    }
    let mut by_loss: Vec<NodeId> = amounts.keys().copied().collect();
    by_loss.sort_by_key(|node| Reverse(amounts[node] % block_pages));
    // The sum exceeds the amounts by half a block at most: two rounds are enough.
    for node in by_loss.iter().cycle().take(2 * by_loss.len()) {
        let more = block_pages.min(left);
        left -= more;
        *rounded.entry(*node).or_default() += more;
    }
    rounded.retain(|_, pages| *pages > 0);
    rounded
}

fn pages_on(pages: &BlockPages, node: NodeId) -> u64 {
    pages.get(&node).copied().unwrap_or(0)
}
