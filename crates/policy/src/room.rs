//! How many cached pages go to a node before the kernel would make room by dropping others of them.
//!
//! To take a page that it cannot place, the kernel drops cold file pages of the destination. If
//! those are others', so be it: any reader makes it do that. If they came there by the same move,
//! or belong to the same files, then moving loses what it was to bring near. So a node takes what
//! is free, and as much as there is cold that is not of these files, but that bit by bit: which of
//! the cold the kernel takes is its own affair.

use std::collections::BTreeMap;

use nodeward_model::{NodeId, Room};

/// A node with less room than this takes nothing more, in base pages.
const ROOM_PAGES_MIN: u64 = 4096;
/// So many base pages go at a time to where others must go for them.
const COLD_PAGES_MAX: u64 = 16_384;
/// Where more than one in so many of those went away again, no more follow.
const GONE_ONE_IN: u64 = 8;

/// Pages to move, by source and destination.
pub type Moves = BTreeMap<(NodeId, NodeId), u64>;

/// The room on nodes, as it is used up.
#[derive(Clone, Debug, Default)]
pub struct Rooms {
    nodes: BTreeMap<NodeId, Used>,
}

#[derive(Clone, Copy, Debug)]
struct Used {
    room: Room,
    /// Pages of the same files that were there already, and may be among the cold.
    there_pages: u64,
    arrived_pages: u64,
}

impl Used {
    fn free_pages(&self) -> u64 {
        self.room.free_pages.saturating_sub(self.arrived_pages)
    }

    /// Free, and cold of others.
    fn left_pages(&self) -> u64 {
        let others = self.room.cold_pages.saturating_sub(self.there_pages);
        (self.room.free_pages + others).saturating_sub(self.arrived_pages)
    }

    fn takes(&self, pages: u64) -> bool {
        pages <= self.free_pages() || pages <= self.left_pages().min(COLD_PAGES_MAX)
    }
}

impl Rooms {
    /// Before anything has moved. A node that is not among them takes everything.
    pub fn new(rooms: BTreeMap<NodeId, Room>) -> Self {
        let unused = |room| Used { room, there_pages: 0, arrived_pages: 0 };
        Self { nodes: rooms.into_iter().map(|(node, room)| (node, unused(room))).collect() }
    }

    /// Whether pages can go where they are to go, all in one move. `residency` says on which nodes
    /// they and others of the same files are now.
    pub fn fit(&self, moves: &Moves, residency: &BTreeMap<NodeId, u64>) -> bool {
        let mut seen = self.clone();
        seen.saw(residency);
        let arrivals = arrivals(moves);
        arrivals.iter().all(|(to, &pages)| seen.nodes.get(to).is_none_or(|node| node.takes(pages)))
    }

    /// Whether none of the destinations has room worth trying.
    pub fn are_full(&self, moves: &Moves) -> bool {
        let full = |node: &Used| node.left_pages() < ROOM_PAGES_MIN;
        moves.keys().all(|(_, to)| self.nodes.get(to).is_some_and(full))
    }

    /// Takes note where pages are before they are moved or left where they are, each once.
    pub fn saw(&mut self, residency: &BTreeMap<NodeId, u64>) {
        for (node, pages) in residency {
            if let Some(used) = self.nodes.get_mut(node) {
                used.there_pages += pages;
            }
        }
    }

    /// Takes note that pages were moved, and that so many of these or of others of the same files
    /// went away meanwhile.
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

    /// Goal: what is free and what is cold is used up once.
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

    /// Goal: cold pages of the same files are not driven out by their neighbours, whether they are
    /// seen now or were seen before.
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

    /// Goal: what is free is filled in one go, and what is cold in pieces that bound a loss; after
    /// a loss no more is risked, while a few pages do not count.
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

    /// Goal: one full node does not speak for another, and a node of which nothing is known does
    /// not stand in the way.
    #[test]
    fn nodes_are_told_apart() {
        let rooms = Rooms::new([(TO, Room::default()), (NodeId(2), Room::default())].into());
        let elsewhere = [((NodeId(0), NodeId(3)), 1 << 30)].into();
        assert!(rooms.fit(&elsewhere, &there(0)) && !rooms.are_full(&elsewhere));
        assert!(!rooms.fit(&moves(1), &there(0)) && rooms.are_full(&moves(1)));
        assert!(rooms.fit(&moves(0), &there(9)), "nothing is to come");
    }
}
