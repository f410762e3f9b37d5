//! The blocks that go, and their destinations: blocks that go, blocks that stay and destinations
//! alternate over the addresses.

use std::cmp::Reverse;

use nodeward_model::NodeId;

use super::block::{BlockMove, BlockPages};

/// Pages of a block that leave a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeavingPart {
    /// The index of the block.
    pub block: usize,
    /// The node of the blocks.
    pub from: NodeId,
    /// The number of their pages.
    pub pages: u64,
}

/// Chooses the parts of blocks that leave nodes, sorted by block. Up to each block of a node the
/// pages that go are in proportion to the pages so far, within half a block.
pub fn leaving(blocks: &[BlockPages], have: &BlockPages, give: &BlockPages) -> Vec<LeavingPart> {
    let mut parts = Vec::new();
    // What the nodes so far gave too little; below zero: too much.
    let mut owed = 0;
    for (&from, &pages) in give {
        let held = have.get(&from).copied().unwrap_or(0);
        let due = i128::from(pages) + owed;
        // A node that is to be emptied keeps nothing, whatever others gave.
        let target = if pages == held { i128::from(held) } else { due.clamp(0, i128::from(held)) };
        let gone = leaving_node(blocks, from, target, i128::from(held), &mut parts);
        owed = due - gone;
    }
    parts.sort_unstable();
    parts
}

/// Chooses parts of one node with `target` of its `held` pages. Returns their pages.
fn leaving_node(
    blocks: &[BlockPages],
    from: NodeId,
    target: i128,
    held: i128,
    parts: &mut Vec<LeavingPart>,
) -> i128 {
    let (mut seen, mut gone) = (0, 0);
    for (block, nodes) in blocks.iter().enumerate() {
        let pages = nodes.get(&from).copied().unwrap_or(0);
        let size = i128::from(pages);
        seen += size;
        if size > 0 && 2 * (target * seen - gone * held) > size * held {
            gone += size;
            parts.push(LeavingPart { block, from, pages });
        }
    }
    gone
}

/// A node that takes pages.
struct Taker {
    node: NodeId,
    take: i128,
    got: i128,
}

/// Chooses the destination of each part, so that at each moment every node has got its part of what
/// has gone, within a block.
///
/// This is the algorithm of R. Tijdeman, The chairman assignment problem (1980): of the nodes that
/// are behind, the one whose next block is due first takes it. For parts of equal size no node is
/// ever a whole block ahead or behind.
pub fn destinations(parts: &[LeavingPart], take: &BlockPages, block_pages: u64) -> Vec<BlockMove> {
    let taker = |(&node, &take): (&NodeId, &u64)| Taker { node, take: i128::from(take), got: 0 };
    let mut takers: Vec<Taker> = take.iter().map(taker).collect();
    let total: i128 = parts.iter().map(|part| i128::from(part.pages)).sum();
    let mut gone = 0;
    let mut moves = Vec::with_capacity(parts.len());
    for &LeavingPart { block, from, pages } in parts {
        gone += i128::from(pages);
        let turn = Turn { total, gone, size: i128::from(pages), block: i128::from(block_pages) };
        let Some(taker) = turn.next(&mut takers) else { break };
        taker.got += i128::from(pages);
        moves.push(BlockMove { block, from, to: taker.node, pages });
    }
    moves
}

/// The choice of the destination of one part. All numbers are pages.
struct Turn {
    /// Of all parts.
    total: i128,
    /// Of all parts up to this one.
    gone: i128,
    /// Of this part.
    size: i128,
    /// Of a whole block.
    block: i128,
}

impl Turn {
    fn next<'a>(&self, takers: &'a mut [Taker]) -> Option<&'a mut Taker> {
        // 2k - 2 for k nodes, as in the theorem: its inverse is how far ahead a node may be.
        let steps = 2 * (takers.len() as i128) - 2;
        let lag = |taker: &Taker| taker.take * self.gone - taker.got * self.total;
        let is_behind = |taker: &Taker| lag(taker) * steps >= self.size * self.total;
        // Due when `take` times what has gone reaches this; compared as fractions.
        let due = |taker: &Taker| taker.got * steps + self.block * (steps - 1);
        let by_due = |a: &usize, b: &usize| {
            let (a, b) = (&takers[*a], &takers[*b]);
            (due(a) * b.take).cmp(&(due(b) * a.take))
        };
        let behind = (0..takers.len()).filter(|&index| is_behind(&takers[index])).min_by(by_due);
        let farthest = || (0..takers.len()).min_by_key(|&index| Reverse(lag(&takers[index])));
        behind.or_else(farthest).map(|index| &mut takers[index])
    }
}
