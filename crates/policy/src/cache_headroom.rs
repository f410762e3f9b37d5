//! Limits the cached pages that move to a node, so that the kernel does not drop other cached pages
//! of the same files to make room.
//!
//! To place a page on a full node, the kernel drops cold file pages of that node. Dropping pages of
//! other files is acceptable: any read causes it. But if the dropped pages came by the same move,
//! or belong to the same files, the move loses what it was to bring near. So a node takes pages up
//! to its free memory, plus as much as it has cold pages of other files. The latter are used in
//! small steps, because the kernel chooses which cold pages it drops.

use std::collections::BTreeMap;

use nodeward_model::{NodeHeadroom, NodeId};

/// A node with less headroom than this takes no more pages, in base pages.
const HEADROOM_PAGES_MIN: u64 = 4096;
/// Limit on the base pages of one move that displace cold pages.
const INACTIVE_PAGES_MAX: u64 = 16_384;
/// If more than one in this many of those pages was dropped again, no more follow.
const DROPPED_ONE_IN: u64 = 8;

/// Pages to move, by source and destination.
pub type PagesByPair = BTreeMap<(NodeId, NodeId), u64>;

/// The headroom of nodes, as it is used up.
#[derive(Clone, Debug, Default)]
pub struct CacheHeadroom {
    nodes: BTreeMap<NodeId, NodeUse>,
}

#[derive(Clone, Copy, Debug)]
struct NodeUse {
    headroom: NodeHeadroom,
    /// Pages of the same files that were there before, and may be among the cold ones.
    resident_pages: u64,
    arrived_pages: u64,
}

impl NodeUse {
    fn free_pages(&self) -> u64 {
        self.headroom.free_pages.saturating_sub(self.arrived_pages)
    }

    /// Returns the free pages plus the cold pages of other files, less those used.
    fn available_pages(&self) -> u64 {
        let others = self.headroom.inactive_file_pages.saturating_sub(self.resident_pages);
        (self.headroom.free_pages + others).saturating_sub(self.arrived_pages)
    }

    fn accepts(&self, pages: u64) -> bool {
        pages <= self.free_pages() || pages <= self.available_pages().min(INACTIVE_PAGES_MAX)
    }
}

impl CacheHeadroom {
    /// Returns the headroom before any move. A node without an entry has no limit.
    pub fn new(rooms: BTreeMap<NodeId, NodeHeadroom>) -> Self {
        let unused = |room| NodeUse { headroom: room, resident_pages: 0, arrived_pages: 0 };
        Self { nodes: rooms.into_iter().map(|(node, room)| (node, unused(room))).collect() }
    }

    /// Returns true if pages fit on their destinations, all in one move. `residency` has the
    /// present nodes of these pages and of others of the same files.
    pub fn fits(&self, moves: &PagesByPair, residency: &BTreeMap<NodeId, u64>) -> bool {
        let mut seen = self.clone();
        seen.record_residency(residency);
        let arrivals = arrivals(moves);
        arrivals
            .iter()
            .all(|(to, &pages)| seen.nodes.get(to).is_none_or(|node| node.accepts(pages)))
    }

    /// Returns true if none of the destinations has headroom worth trying.
    pub fn are_full(&self, moves: &PagesByPair) -> bool {
        let full = |node: &NodeUse| node.available_pages() < HEADROOM_PAGES_MIN;
        moves.keys().all(|(_, to)| self.nodes.get(to).is_some_and(full))
    }

    /// Records the residency of pages before they are moved or left in place, each once.
    pub fn record_residency(&mut self, residency: &BTreeMap<NodeId, u64>) {
        for (node, pages) in residency {
            if let Some(used) = self.nodes.get_mut(node) {
                used.resident_pages += pages;
            }
        }
    }

    /// Records a move, and the number of pages of it or of the same files that were dropped
    /// meanwhile.
    pub fn record_moves(&mut self, moves: &PagesByPair, gone_pages: u64) {
        for (to, pages) in arrivals(moves) {
            if let Some(used) = self.nodes.get_mut(&to) {
                used.arrived_pages += pages;
                if gone_pages > pages / DROPPED_ONE_IN {
                    used.headroom.inactive_file_pages = 0;
                }
            }
        }
    }
}

fn arrivals(moves: &PagesByPair) -> BTreeMap<NodeId, u64> {
    let mut arrivals = BTreeMap::new();
    for ((_, to), pages) in moves {
        *arrivals.entry(*to).or_default() += pages;
    }
    arrivals
}

#[cfg(test)]
mod tests {
    use super::*;

    const TO: NodeId = NodeId(1);

    fn rooms(free_pages: u64, cold_pages: u64) -> CacheHeadroom {
        CacheHeadroom::new(
            [(TO, NodeHeadroom { free_pages, inactive_file_pages: cold_pages })].into(),
        )
    }

    fn moves(pages: u64) -> PagesByPair {
        [((NodeId(0), TO), pages)].into()
    }

    fn there(pages: u64) -> BTreeMap<NodeId, u64> {
        [(TO, pages)].into()
    }

    /// Goal: free and cold pages are used up once.
    #[test]
    fn arrivals_use_room_up() {
        let mut rooms = rooms(6000, 4000);
        assert!(rooms.fits(&moves(10_000), &there(0)));
        assert!(!rooms.fits(&moves(10_001), &there(0)));
        rooms.record_moves(&moves(5000), 0);
        assert!(rooms.fits(&moves(5000), &there(0)), "10000 - 5000 are left");
        assert!(!rooms.fits(&moves(5001), &there(0)));
        assert!(!rooms.are_full(&moves(1)));
        rooms.record_moves(&moves(1000), 0);
        assert!(rooms.are_full(&moves(1)), "4000 are left");
    }

    /// Goal: cold pages of the same files do not count as headroom, whether they are reported now
    /// or were before.
    #[test]
    fn what_is_there_already_is_no_room() {
        let mut rooms = rooms(1000, 8000);
        assert!(!rooms.fits(&moves(3001), &there(6000)), "1000 + 8000 - 6000");
        rooms.record_residency(&there(6000));
        assert!(rooms.fits(&moves(3000), &there(0)));
        rooms.record_residency(&there(6000));
        assert!(rooms.fits(&moves(1000), &there(0)), "no less than what is free");
        assert!(!rooms.fits(&moves(1001), &there(0)));
    }

    /// Goal: free memory is filled in one move, and cold pages are displaced in pieces that bound a
    /// loss; after a loss no more is risked, while a few pages do not count.
    #[test]
    fn the_cold_is_used_with_care() {
        let cold = 1 << 30;
        let mut rooms = rooms(1_000_000, cold);
        assert!(rooms.fits(&moves(1_000_000), &there(0)));
        assert!(!rooms.fits(&moves(1_000_001), &there(0)));
        rooms.record_moves(&moves(1_000_000), 0);
        assert!(rooms.fits(&moves(INACTIVE_PAGES_MAX), &there(0)));
        assert!(!rooms.fits(&moves(INACTIVE_PAGES_MAX + 1), &there(0)));
        rooms.record_moves(&moves(1600), 200);
        assert!(rooms.fits(&moves(1), &there(0)), "200 of 1600 are an eighth");
        rooms.record_moves(&moves(1600), 201);
        assert!(!rooms.fits(&moves(1), &there(0)) && rooms.are_full(&moves(1)));
    }

    /// Goal: one full node does not affect another, and a node without data does not stop a move.
    #[test]
    fn nodes_are_told_apart() {
        let rooms = CacheHeadroom::new(
            [(TO, NodeHeadroom::default()), (NodeId(2), NodeHeadroom::default())].into(),
        );
        let elsewhere = [((NodeId(0), NodeId(3)), 1 << 30)].into();
        assert!(rooms.fits(&elsewhere, &there(0)) && !rooms.are_full(&elsewhere));
        assert!(!rooms.fits(&moves(1), &there(0)) && rooms.are_full(&moves(1)));
        assert!(rooms.fits(&moves(0), &there(9)), "nothing is to come");
    }
}
