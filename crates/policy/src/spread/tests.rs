//! Goal: nodes end at their quotas with as few moves as possible, and what goes, what stays and the
//! destinations alternate.

use proptest::prelude::*;

use super::*;

/// Pages of a block of the tests.
const BLOCK: u64 = 512;

/// Returns blocks that are on one node each.
fn whole(nodes: &[u32]) -> Vec<BlockPages> {
    nodes.iter().map(|&node| [(NodeId(node), BLOCK)].into()).collect()
}

fn weights(weights: &[(u32, u32)]) -> Weights {
    Weights::new(weights.iter().map(|&(node, weight)| (NodeId(node), weight))).unwrap()
}

fn equal(nodes: u32) -> Weights {
    weights(&(0..nodes).map(|node| (node, 1)).collect::<Vec<_>>())
}

fn plan(blocks: &[BlockPages], weights: &Weights) -> Vec<BlockMove> {
    plan_spread(blocks, BLOCK, weights, &BTreeMap::new())
}

/// Returns the blocks after the moves.
fn carried_out(blocks: &[BlockPages], moves: &[BlockMove]) -> Vec<BlockPages> {
    let mut blocks = blocks.to_vec();
    for &BlockMove { block, from, to, pages } in moves {
        assert_eq!(blocks[block].remove(&from), Some(pages), "all pages of the node in the block");
        *blocks[block].entry(to).or_default() += pages;
    }
    blocks
}

/// Returns the node of each block after the moves.
fn pattern(nodes: &[u32], weights: &Weights) -> Vec<u32> {
    let blocks = whole(nodes);
    let after = carried_out(&blocks, &plan(&blocks, weights));
    after.iter().map(|block| block.keys().next().unwrap().0).collect()
}

/// Goal: the nodes take turns over the addresses, by their weights.
#[test]
fn what_is_on_one_node_alternates() {
    assert_eq!(pattern(&[0; 6], &equal(2)), [0, 1, 0, 1, 0, 1]);
    assert_eq!(pattern(&[1; 6], &equal(2)), [1, 0, 1, 0, 1, 0]);
    let of_four = pattern(&[0; 16], &equal(4));
    for turn in of_four.chunks(4) {
        let mut nodes = turn.to_vec();
        nodes.sort_unstable();
        assert_eq!(nodes, [0, 1, 2, 3], "{of_four:?}");
    }
    assert_eq!(pattern(&[0; 8], &weights(&[(0, 3), (1, 1)])), [0, 0, 1, 0, 0, 0, 1, 0]);
    assert_eq!(pattern(&[0; 8], &weights(&[(0, 1), (1, 3)])), [1, 0, 1, 1, 1, 0, 1, 1]);
}

/// Goal: what is within the quotas stays, also if it does not alternate.
#[test]
fn what_is_even_stays() {
    assert_eq!(pattern(&[0, 0, 1, 1], &equal(2)), [0, 0, 1, 1]);
    assert_eq!(plan(&[[(NodeId(0), 256), (NodeId(1), 256)].into()], &equal(2)), []);
    assert_eq!(plan(&[], &equal(2)), []);
}

/// Goal: nodes that are not named keep nothing.
#[test]
fn other_nodes_are_emptied() {
    assert_eq!(pattern(&[2; 4], &equal(2)), [0, 1, 0, 1]);
    // 7 blocks: 3.5 each; nodes 0 and 1 have 3 and 2, so that they take 1 each.
    assert_eq!(pattern(&[0, 0, 0, 2, 1, 1, 2], &equal(2)), [0, 0, 0, 0, 1, 1, 1]);
}

/// Goal: of fewer blocks than nodes none moves for less than a half: 1 block stays (0.5 is too
/// much), of 3 on 4 nodes 2 go (3 x 0.75 = 2.25).
#[test]
fn fewer_blocks_than_nodes() {
    assert_eq!(pattern(&[0], &equal(2)), [0]);
    let mut three = pattern(&[0; 3], &equal(4));
    three.sort_unstable();
    assert_eq!(three, [0, 1, 2]);
}

/// Goal: a full node takes what it has room for, and the others more; without any room all stays.
#[test]
fn room_is_kept() {
    let blocks = whole(&[0; 12]);
    let counts = |room: &[(u32, u64)]| {
        let room = room.iter().map(|&(node, blocks)| (NodeId(node), blocks * BLOCK)).collect();
        let moves = plan_spread(&blocks, BLOCK, &equal(3), &room);
        let after = total(&carried_out(&blocks, &moves));
        [0, 1, 2].map(|node| after.get(&NodeId(node)).map_or(0, |pages| pages / BLOCK))
    };
    assert_eq!(counts(&[]), [4, 4, 4]);
    assert_eq!(counts(&[(1, 2)]), [5, 2, 5]);
    assert_eq!(counts(&[(1, 2), (2, 1)]), [9, 2, 1]);
    assert_eq!(counts(&[(1, 0), (2, 0)]), [12, 0, 0]);
    let outside = plan_spread(&whole(&[5; 4]), BLOCK, &equal(1), &[(NodeId(0), 3 * BLOCK)].into());
    assert_eq!(outside.len(), 3, "the fourth finds no room");
}

/// Goal: a weight of zero is refused by name.
#[test]
fn a_weight_of_zero() {
    let refused = Weights::new([(NodeId(0), 3), (NodeId(1), 0)]);
    assert_eq!(refused, Err(ZeroWeight(NodeId(1))));
    assert!(refused.unwrap_err().to_string().contains("the weight of node 1 is 0"));
}

/// Goal: the numbers of a large machine do not overflow: 4096 blocks of 1 GiB on 1024 nodes with
/// the largest weights, 4 each.
#[test]
fn large_numbers() {
    let pages = 1 << 18;
    let blocks: Vec<BlockPages> = vec![[(NodeId(0), pages)].into(); 4096];
    let weights = Weights::new((0..1024).map(|node| (NodeId(node), u32::MAX))).unwrap();
    let moves = plan_spread(&blocks, pages, &weights, &BTreeMap::new());
    let after = total(&carried_out(&blocks, &moves));
    assert!(after.values().all(|&on| on == 4 * pages) && after.len() == 1024);
}

/// Returns the exact quota of a node times the sum of the weights.
fn scaled_quota(have: &BlockPages, weights: &Weights, node: NodeId) -> (u64, u64) {
    let whole: u64 = weights.iter().map(|(_, weight)| u64::from(weight)).sum();
    let weight = weights.iter().find(|(it, _)| *it == node).map_or(0, |(_, weight)| weight);
    (have.values().sum::<u64>() * u64::from(weight), whole)
}

/// Returns the sum of what is above the quotas, times the sum of the weights.
fn scaled_excess(have: &BlockPages, weights: &Weights) -> (u64, u64) {
    let whole: u64 = weights.iter().map(|(_, weight)| u64::from(weight)).sum();
    let over = |(&node, &pages): (&NodeId, &u64)| {
        (pages * whole).saturating_sub(scaled_quota(have, weights, node).0)
    };
    (have.iter().map(over).sum(), whole)
}

proptest! {
    /// Goal: for blocks on one node each, every node ends less than a block from its quota, and no
    /// more moves than the excess, rounded to blocks (and, without a weight, all).
    #[test]
    fn whole_blocks(
        nodes in proptest::collection::vec(0..7_u32, 0..200),
        given in proptest::collection::vec(1..9_u32, 1..7),
    ) {
        let blocks = whole(&nodes);
        let weights = Weights::new((0..).map(NodeId).zip(given)).unwrap();
        let moves = plan(&blocks, &weights);
        prop_assert_eq!(&moves, &plan(&blocks, &weights));
        prop_assert!(moves.is_sorted_by_key(|it| it.block));
        let have = total(&blocks);
        let after = total(&carried_out(&blocks, &moves));
        for node in (0..7).map(NodeId) {
            let (quota, whole) = scaled_quota(&have, &weights, node);
            let pages = after.get(&node).copied().unwrap_or(0);
            let off = (pages * whole).abs_diff(quota);
            prop_assert!(off < BLOCK * whole + whole, "{node}: {pages}, {moves:?}");
            prop_assert!(weights.contains(node) || pages == 0);
        }
        let (excess, whole) = scaled_excess(&have, &weights);
        let moved: u64 = moves.iter().map(|it| it.pages).sum();
        // Half a block, and less than a page for each quota.
        prop_assert!((moved * whole).abs_diff(excess) <= (BLOCK / 2 + 7) * whole);
    }

    /// Goal: however the pages of blocks lie, no node ends more than two blocks from its quota, no
    /// more than a block goes beyond the excess, and nothing goes to a node that is over its quota.
    #[test]
    fn mixed_blocks(
        parts in proptest::collection::vec((0..120_usize, 0..5_u32, 1..103_u64), 0..400),
        given in proptest::collection::vec(1..9_u32, 2..5),
    ) {
        let mut blocks = vec![BlockPages::new(); 120];
        for (block, node, pages) in parts {
            blocks[block].insert(NodeId(node), pages);
        }
        let weights = Weights::new((0..).map(NodeId).zip(given)).unwrap();
        let moves = plan(&blocks, &weights);
        let have = total(&blocks);
        let after = total(&carried_out(&blocks, &moves));
        for node in (0..5).map(NodeId) {
            let (quota, whole) = scaled_quota(&have, &weights, node);
            let pages = after.get(&node).copied().unwrap_or(0);
            prop_assert!((pages * whole).abs_diff(quota) <= 2 * BLOCK * whole, "{node}: {pages}");
            prop_assert!(weights.contains(node) || pages == 0);
            let is_over = have.get(&node).copied().unwrap_or(0) * whole > quota + whole;
            prop_assert!(!is_over || moves.iter().all(|it| it.to != node));
        }
        let (excess, whole) = scaled_excess(&have, &weights);
        let moved: u64 = moves.iter().map(|it| it.pages).sum();
        prop_assert!(moved * whole <= excess + (BLOCK + 5) * whole);
    }

    /// Goal: over any stretch of addresses each node has its share, within two blocks.
    #[test]
    fn every_stretch_uses_all_nodes(
        count in 1..150_usize,
        given in proptest::collection::vec(1..5_u32, 2..6),
        stretch in (0..150_usize, 0..150_usize),
    ) {
        let weights = Weights::new((0..).map(NodeId).zip(given)).unwrap();
        let nodes = pattern(&vec![0; count], &weights);
        let (start, end) = (stretch.0.min(count), (stretch.0 + stretch.1).min(count));
        let whole: u64 = weights.iter().map(|(_, weight)| u64::from(weight)).sum();
        for (node, weight) in weights.iter() {
            let on = nodes[start..end].iter().filter(|&&it| it == node.0).count() as u64;
            let share = (end - start) as u64 * u64::from(weight);
            prop_assert!((on * whole).abs_diff(share) <= 2 * whole, "{node}: {on}, {nodes:?}");
        }
    }
}
