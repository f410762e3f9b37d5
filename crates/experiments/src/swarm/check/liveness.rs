//! Checks that memory reaches its wanted nodes once faults have ended, as far as there is room.

use std::collections::BTreeMap;

use nodeward_model::NodeId;

/// The state of a process after rounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedProcess {
    /// The wanted node.
    pub wanted: NodeId,
    /// Its pages by node, without those in flight.
    pub pages: BTreeMap<NodeId, u64>,
    /// Pages that may stay where they are: folios too large for the budget, pages of others.
    pub exempt_pages: u64,
}

impl WantedProcess {
    fn misplaced(&self) -> u64 {
        let away = self.pages.iter().filter(|(node, _)| **node != self.wanted);
        away.map(|(_, pages)| pages).sum::<u64>().saturating_sub(self.exempt_pages)
    }
}

/// The share of pages that are not on their wanted node although there is room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MisplacedShare {
    /// Misplaced pages.
    pub misplaced: u64,
    /// All pages.
    pub all: u64,
}

impl MisplacedShare {
    /// Computes the share of processes on a machine with these free pages by node. A page needs
    /// room for `needs` pages, because a huge page moves as a whole.
    pub fn of(processes: &[WantedProcess], free: &BTreeMap<NodeId, u64>, needs: u64) -> Self {
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

    /// Returns whether at most `milli` of 1000 pages are misplaced, without the `came` pages that
    /// were faulted in or touched for a move during the round.
    pub fn is_within(self, milli: u64, came: u64) -> bool {
        self.misplaced.saturating_sub(came) * 1000 <= self.all * milli
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(wanted: u32, on: [u64; 2], excused: u64) -> WantedProcess {
        let pages = [(NodeId(0), on[0]), (NodeId(1), on[1])].into();
        WantedProcess { wanted: NodeId(wanted), pages, exempt_pages: excused }
    }

    fn share(free: [u64; 2], needs: u64) -> MisplacedShare {
        let free = [(NodeId(0), free[0]), (NodeId(1), free[1])].into();
        // 60 pages want to node 1, 5 of which may stay; 7 want to node 0.
        MisplacedShare::of(&[placed(1, [60, 33], 5), placed(0, [0, 7], 0)], &free, needs)
    }

    /// Goal: pages count as misplaced as far as there is room on their wanted node.
    #[test]
    fn pages_are_misplaced_where_there_is_room() {
        assert_eq!(share([100, 100], 1), MisplacedShare { misplaced: 62, all: 100 }); // 60 - 5 + 7
        assert_eq!(share([0, 100], 1).misplaced, 55);
        assert_eq!(share([100, 30], 1).misplaced, 37); // 30 + 7
        assert_eq!(share([511, 512], 512).misplaced, 1, "room for one huge page");
        assert!(share([0, 100], 1).is_within(550, 0));
        assert!(!share([0, 100], 1).is_within(549, 0));
        assert!(share([0, 100], 1).is_within(500, 5));
    }
}
