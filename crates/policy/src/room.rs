//! Limits the cached pages that move to a node, so that the kernel does not drop other cached pages
//! of the same files to make room.
//!
//! To place a page on a full node, the kernel drops cold file pages of that node. Dropping pages of
//! other files is acceptable: any read causes it. But if the dropped pages came by the same move,
//! or belong to the same files, the move loses what it was to bring near. So a node takes pages up
//! to its free memory, plus as much as it has cold pages of other files. The latter are used in
//! small steps, because the kernel chooses which cold pages it drops.

use std::collections::BTreeMap;

use nodeward_model::{NodeId, Room};

/// A node with less headroom than this takes no more pages, in base pages.
const ROOM_PAGES_MIN: u64 = 4096;
/// Limit on the base pages of one move that displace cold pages.
const COLD_PAGES_MAX: u64 = 16_384;
/// If more than one in this many of those pages was dropped again, no more follow.
const GONE_ONE_IN: u64 = 8;

/// Pages to move, by source and destination.
pub type Moves = BTreeMap<(NodeId, NodeId), u64>;

/// The headroom of nodes, as it is used up.
#[derive(Clone, Debug, Default)]
pub struct Rooms {
    nodes: BTreeMap<NodeId, Used>,
}

#[derive(Clone, Copy, Debug)]
struct Used {
    room: Room,
    /// Pages of the same files that were there before, and may be among the cold ones.
    there_pages: u64,
    arrived_pages: u64,
}

impl Used {
    fn free_pages(&self) -> u64 {
        self.room.free_pages.saturating_sub(self.arrived_pages)
    }

    /// Returns the free pages plus the cold pages of other files, less those used.
    fn left_pages(&self) -> u64 {
        let others = self.room.cold_pages.saturating_sub(self.there_pages);
        (self.room.free_pages + others).saturating_sub(self.arrived_pages)
    }

    fn takes(&self, pages: u64) -> bool {
        pages <= self.free_pages() || pages <= self.left_pages().min(COLD_PAGES_MAX)
    }
}

impl Rooms {
    /// Returns the headroom before any move. A node without an entry has no limit.
    pub fn new(rooms: BTreeMap<NodeId, Room>) -> Self {
        let unused = |room| Used { room, there_pages: 0, arrived_pages: 0 };
        Self { nodes: rooms.into_iter().map(|(node, room)| (node, unused(room))).collect() }
    }

    /// Returns true if pages fit on their destinations, all in one move. `residency` has the
    /// present nodes of these pages and of others of the same files.
    pub fn fit(&self, moves: &Moves, residency: &BTreeMap<NodeId, u64>) -> bool {
        let mut seen = self.clone();
        seen.saw(residency);
        let arrivals = arrivals(moves);
        arrivals.iter().all(|(to, &pages)| seen.nodes.get(to).is_none_or(|node| node.takes(pages)))
    }

    /// Returns true if none of the destinations has headroom worth trying.
    pub fn are_full(&self, moves: &Moves) -> bool {
        let full = |node: &Used| node.left_pages() < ROOM_PAGES_MIN;
        moves.keys().all(|(_, to)| self.nodes.get(to).is_some_and(full))
    }

    /// Records the residency of pages before they are moved or left in place, each once.
    pub fn saw(&mut self, residency: &BTreeMap<NodeId, u64>) {
        for (node, pages) in residency {
            if let Some(used) = self.nodes.get_mut(node) {
                used.there_pages += pages;
            }
        }
    }

    /// Records a move, and the number of pages of it or of the same files that were dropped
    /// meanwhile.
    pub fn moved(&mut self, moves: &Moves, gone_pages: u64) {
        for (to, pages) in arrivals(moves) {
            if let Some(used) = self.nodes.get_mut(&to) {
                used.arrived_pages += pages;
                if gone_pages > pages / GONE_ONE_IN {
                    used.room.cold_pages = 0;
                }
            }
        }
    }
}

fn arrivals(moves: &Moves) -> BTreeMap<NodeId, u64> {
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

    fn rooms(free_pages: u64, cold_pages: u64) -> Rooms {
        Rooms::new([(TO, Room { free_pages, cold_pages })].into())
    }

    fn moves(pages: u64) -> Moves {
        [((NodeId(0), TO), pages)].into()
    }

    fn there(pages: u64) -> BTreeMap<NodeId, u64> {
        [(TO, pages)].into()
    }

    /// Goal: free and cold pages are used up once.
    #[test]
    fn arrivals_use_room_up() {
        let mut rooms = rooms(6000, 4000);
        assert!(rooms.fit(&moves(10_000), &there(0)));
        assert!(!rooms.fit(&moves(10_001), &there(0)));
        rooms.moved(&moves(5000), 0);
        assert!(rooms.fit(&moves(5000), &there(0)), "10000 - 5000 are left");
        assert!(!rooms.fit(&moves(5001), &there(0)));
        assert!(!rooms.are_full(&moves(1)));
        rooms.moved(&moves(1000), 0);
        assert!(rooms.are_full(&moves(1)), "4000 are left");
    }

    /// Goal: cold pages of the same files do not count as headroom, whether they are reported now
    /// or were before.
    #[test]
    fn what_is_there_already_is_no_room() {
        let mut rooms = rooms(1000, 8000);
        assert!(!rooms.fit(&moves(3001), &there(6000)), "1000 + 8000 - 6000");
        rooms.saw(&there(6000));
        assert!(rooms.fit(&moves(3000), &there(0)));
        rooms.saw(&there(6000));
        assert!(rooms.fit(&moves(1000), &there(0)), "no less than what is free");
        assert!(!rooms.fit(&moves(1001), &there(0)));
    }

    /// Goal: free memory is filled in one move, and cold pages are displaced in pieces that bound a
    /// loss; after a loss no more is risked, while a few pages do not count.
    #[test]
    fn the_cold_is_used_with_care() {
        let cold = 1 << 30;
        let mut rooms = rooms(1_000_000, cold);
        assert!(rooms.fit(&moves(1_000_000), &there(0)));
        assert!(!rooms.fit(&moves(1_000_001), &there(0)));
        rooms.moved(&moves(1_000_000), 0);
        assert!(rooms.fit(&moves(COLD_PAGES_MAX), &there(0)));
        assert!(!rooms.fit(&moves(COLD_PAGES_MAX + 1), &there(0)));
        rooms.moved(&moves(1600), 200);
        assert!(rooms.fit(&moves(1), &there(0)), "200 of 1600 are an eighth");
        rooms.moved(&moves(1600), 201);
        assert!(!rooms.fit(&moves(1), &there(0)) && rooms.are_full(&moves(1)));
    }

    /// Goal: one full node does not affect another, and a node without data does not stop a move.
    #[test]
    fn nodes_are_told_apart() {
        let rooms = Rooms::new([(TO, Room::default()), (NodeId(2), Room::default())].into());
        let elsewhere = [((NodeId(0), NodeId(3)), 1 << 30)].into();
        assert!(rooms.fit(&elsewhere, &there(0)) && !rooms.are_full(&elsewhere));
        assert!(!rooms.fit(&moves(1), &there(0)) && rooms.are_full(&moves(1)));
        assert!(rooms.fit(&moves(0), &there(9)), "nothing is to come");
    }
}
