//! When nothing goes wrong any more, memory comes to where it is wanted, as far as there is room.

use std::collections::BTreeMap;

use nodeward_model::NodeId;

/// A process as rounds leave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Where it is wanted.
    pub wanted: NodeId,
    /// Its pages by node, those on their way left out.
    pub pages: BTreeMap<NodeId, u64>,
    /// Pages that may stay where they are: folios too large for the budget, pages of others.
    pub excused: u64,
}

impl Placed {
    fn misplaced(&self) -> u64 {
        let away = self.pages.iter().filter(|(node, _)| **node != self.wanted);
        away.map(|(_, pages)| pages).sum::<u64>().saturating_sub(self.excused)
    }
}

/// Pages that lie elsewhere than they are wanted though there is room, of all pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Misplaced pages.
    pub misplaced: u64,
    /// All pages.
    pub all: u64,
}

impl Share {
    /// Of processes on a machine with so many free pages on each node. A page needs room for
    /// `needs` pages: a huge page comes whole.
    pub fn of(processes: &[Placed], free: &BTreeMap<NodeId, u64>, needs: u64) -> Self {
        let mut away: BTreeMap<NodeId, u64> = BTreeMap::new();
        for process in processes {
            *away.entry(process.wanted).or_default() += process.misplaced();
        }
        let room = |node: &NodeId| (free.get(node).copied().unwrap_or(0) + 1).saturating_sub(needs);
        Self {
            misplaced: away.iter().map(|(node, &pages)| pages.min(room(node))).sum(),
            all: processes.iter().flat_map(|process| process.pages.values()).sum(),
        }
    }

    /// Whether not more than so many of 1000 pages are misplaced, beside those that came or were
    /// touched for a move while the round went on.
    pub fn is_within(self, milli: u64, came: u64) -> bool {
        self.misplaced.saturating_sub(came) * 1000 <= self.all * milli
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(wanted: u32, on: [u64; 2], excused: u64) -> Placed {
        let pages = [(NodeId(0), on[0]), (NodeId(1), on[1])].into();
        Placed { wanted: NodeId(wanted), pages, excused }
    }

    fn share(free: [u64; 2], needs: u64) -> Share {
        let free = [(NodeId(0), free[0]), (NodeId(1), free[1])].into();
        // 60 pages want to node 1, 5 of which may stay; 7 want to node 0.
        Share::of(&[placed(1, [60, 33], 5), placed(0, [0, 7], 0)], &free, needs)
    }

    /// Goal: pages are misplaced as far as there is room for them where they are wanted.
    #[test]
    fn pages_are_misplaced_where_there_is_room() {
        assert_eq!(share([100, 100], 1), Share { misplaced: 62, all: 100 }); // 60 - 5 + 7
        assert_eq!(share([0, 100], 1).misplaced, 55);
        assert_eq!(share([100, 30], 1).misplaced, 37); // 30 + 7
        assert_eq!(share([511, 512], 512).misplaced, 1, "room for one huge page");
        assert!(share([0, 100], 1).is_within(550, 0));
        assert!(!share([0, 100], 1).is_within(549, 0));
        assert!(share([0, 100], 1).is_within(500, 5));
    }
}
