//! Exchanges between nodes: the order in which pages move when no node has room for all that
//! arrive.
//!
//! Each parcel of pages that leaves a node frees room for one that arrives. Parcels are small
//! compared with the room at the start, so that concurrent workers may drift apart.

use std::collections::{BTreeMap, VecDeque};

use nodeward_model::NodeId;

/// Lower limit on the bytes of a parcel: a call costs as much as moving a hundred pages.
const PARCEL_BYTES_MIN: u64 = 256 << 10;
/// Upper limit on the bytes of a parcel: where there is room, larger ones gain nothing.
const PARCEL_BYTES_MAX: u64 = 16 << 20;
/// The room for each worker, in parcels. A worker may have one parcel in progress for which no room
/// was freed yet, and another that is early; the same amount again is left to others.
const PARCELS_PER_WORKER: u64 = 4;

/// Pages that move from one node to another in one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// The source node.
    pub from: NodeId,
    /// The destination node.
    pub to: NodeId,
    /// The bytes of these pages.
    pub bytes: u64,
}

/// Returns the size of parcels for this number of workers, if the fullest destination has
/// `free_bytes` free.
pub fn parcel_bytes(free_bytes: u64, workers: u32) -> u64 {
    let share = free_bytes / (PARCELS_PER_WORKER * u64::from(workers.max(1)));
    share.clamp(PARCEL_BYTES_MIN, PARCEL_BYTES_MAX)
}

/// Returns the order in which parcels move, as indices of `parcels`: the next one always goes to
/// the node that then has most room. `free` is the present room in bytes; a node that is missing
/// has no limit.
pub fn transfer_order(parcels: &[Parcel], free: &BTreeMap<NodeId, u64>) -> Vec<usize> {
    let mut free = free.clone();
    let mut waiting: BTreeMap<(NodeId, NodeId), VecDeque<usize>> = BTreeMap::new();
    for (index, parcel) in parcels.iter().enumerate() {
        waiting.entry((parcel.from, parcel.to)).or_default().push_back(index);
    }
    let mut order = Vec::with_capacity(parcels.len());
    let room = |free: &BTreeMap<NodeId, u64>, node| free.get(&node).copied().unwrap_or(u64::MAX);
    while let Some(direction) = waiting.keys().copied().rev().max_by_key(|&(_, to)| room(&free, to))
    {
        let next = waiting.get_mut(&direction).and_then(VecDeque::pop_front);
        let Some(index) = next else {
            waiting.remove(&direction);
            continue;
        };
        let Parcel { from, to, bytes } = parcels[index];
        free.entry(to).and_modify(|room| *room = room.saturating_sub(bytes));
        free.entry(from).and_modify(|room| *room = room.saturating_add(bytes));
        order.push(index);
    }
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn parcel(from: u32, to: u32, bytes: u64) -> Parcel {
        Parcel { from: NodeId(from), to: NodeId(to), bytes }
    }

    fn room(free: &[(u32, u64)]) -> BTreeMap<NodeId, u64> {
        free.iter().map(|&(node, bytes)| (NodeId(node), bytes)).collect()
    }

    #[test]
    fn two_nodes_take_turns() {
        let parcels = [parcel(0, 1, 8), parcel(0, 1, 8), parcel(1, 0, 8), parcel(1, 0, 8)];
        assert_eq!(transfer_order(&parcels, &room(&[(0, 64), (1, 64)])), [0, 2, 1, 3]);
        assert_eq!(transfer_order(&parcels, &room(&[(0, 65), (1, 64)])), [2, 0, 3, 1]);
    }

    #[test]
    fn the_room_is_used_where_it_is() {
        // Node 0 is full: the first parcel must leave it.
        let parcels = [parcel(1, 0, 8), parcel(0, 1, 8), parcel(0, 1, 8)];
        assert_eq!(transfer_order(&parcels, &room(&[(0, 0), (1, 10)])), [1, 0, 2]);
    }

    #[test]
    fn parcels_fit_the_room() {
        assert_eq!(parcel_bytes(64 * MIB, 2), 8 * MIB);
        assert_eq!(parcel_bytes(u64::MAX, 1), 16 * MIB);
        assert_eq!(parcel_bytes(0, 8), 256 << 10);
    }

    proptest! {
        /// Goal: every parcel moves once. Two nodes that exchange equal amounts in parcels of one
        /// size never need more room than one parcel beyond what they freed.
        #[test]
        fn an_even_exchange_needs_one_parcel_of_room(
            count in 1..50_usize,
            free in 1..1000_u64,
        ) {
            let there = (0..count).map(|_| parcel(0, 1, 8));
            let parcels: Vec<_> = there.chain((0..count).map(|_| parcel(1, 0, 8))).collect();
            let order = transfer_order(&parcels, &room(&[(0, free), (1, free)]));
            let mut sorted = order.clone();
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..parcels.len()).collect::<Vec<_>>());
            let mut away = 0_i64;
            for index in order {
                away += if parcels[index].to == NodeId(1) { 8 } else { -8 };
                prop_assert!(away.abs() <= 8, "{away}");
            }
        }

        /// Goal: with any parcels and any room, each parcel moves exactly once.
        #[test]
        fn nothing_is_left_out(
            parcels in proptest::collection::vec((0..4_u32, 0..4_u32, 0..100_u64), 0..60),
            free in proptest::collection::vec((0..4_u32, 0..200_u64), 0..4),
        ) {
            let parcels: Vec<_> = parcels.into_iter().map(|(f, t, b)| parcel(f, t, b)).collect();
            let mut order = transfer_order(&parcels, &room(&free));
            order.sort_unstable();
            prop_assert_eq!(order, (0..parcels.len()).collect::<Vec<_>>());
        }
    }
}
