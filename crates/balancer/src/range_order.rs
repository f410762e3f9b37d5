//! Memory that is worth its move, and the spread process or segment that has it, as planners see
//! it.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodeward_machine::{Machine, Process, Result};
use nodeward_model::{NodeId, Nodemask, PageSet, Range};
use nodeward_mover::{MemoryUsers, locate_folios};
use nodeward_policy::hot::{FolioLocation, HotMove, HotPageRules, MissCosts, PageRoom, TimeRules};

/// Memory whose pages are to be placed: that of a process that is wider than a node, or a segment
/// whose users are apart.
pub struct SpreadMemory {
    pub process: Arc<dyn Process>,
    /// The processes whose accesses are counted.
    pub users: MemoryUsers,
    /// The nodes that the pages may move to.
    pub nodes: Nodemask,
    /// Time within which a move must pay, in nanoseconds.
    pub horizon_ns: u64,
    /// The room of each node, in base pages.
    pub room: PageRoom,
    pub costs: MissCosts,
    /// The part of its run time that a thread waits for local memory, in ppm.
    pub memory_bound_ppm: u32,
}

/// Memory that is worth its move, and the destination.
#[derive(Clone, Debug)]
pub struct RangeOrder {
    /// Page-aligned, in ascending order.
    pub ranges: Vec<Range>,
    /// True if parts of the memory may stay, as it is more than one folio.
    pub is_divisible: bool,
    /// Maximum number of base pages that move.
    pub pages: u64,
    pub from: Nodemask,
    pub to: NodeId,
    pub saved_ns: u64,
    pub cost_ns: u64,
}

impl RangeOrder {
    /// Returns the move of a single folio.
    pub fn of_folio(folio: &HotMove, page_bytes: u64) -> Self {
        Self {
            ranges: vec![folio.range(page_bytes)],
            is_divisible: false,
            pages: u64::from(folio.pages),
            from: Nodemask::from_iter([folio.from]),
            to: folio.to,
            saved_ns: folio.saved_ns,
            cost_ns: folio.cost_ns,
        }
    }

    /// Returns what is left without the pages of a set; `None` for a folio of which a page is in
    /// it, and if less than half is left: what was moved before says that this is in doubt.
    pub fn without(self, held: &PageSet) -> Option<Self> {
        if self.ranges.iter().all(|range| held.count_in(*range) == 0) {
            return Some(self);
        }
        let left = self.ranges.iter().flat_map(|range| held.ranges_without(*range));
        let left: Vec<Range> = left.collect();
        let bytes = |ranges: &[Range]| ranges.iter().map(|range| range.bytes()).sum::<u64>();
        let (before, after) = (bytes(&self.ranges), bytes(&left));
        let is_enough = after == before || self.is_divisible && after > before / 2;
        let part = |number: u64| {
            let part = u128::from(number) * u128::from(after) / u128::from(before.max(1));
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        is_enough.then(|| Self {
            pages: part(self.pages),
            saved_ns: part(self.saved_ns),
            cost_ns: part(self.cost_ns),
            ranges: left,
            ..self
        })
    }
}

/// Ranges that move to one node.
#[derive(Clone, Debug)]
pub struct PageMove {
    pub from: Nodemask,
    pub to: NodeId,
    /// The base pages that move at most.
    pub pages_max: u64,
    pub saved_ns: u64,
    pub cost_ns: u64,
    /// In ascending order.
    pub ranges: Vec<Range>,
}

/// Groups orders by destination.
pub fn page_moves(orders: &[RangeOrder]) -> Vec<PageMove> {
    let mut by_node: BTreeMap<NodeId, Vec<&RangeOrder>> = BTreeMap::new();
    orders.iter().for_each(|each| by_node.entry(each.to).or_default().push(each));
    let page_move = |(to, orders): (NodeId, Vec<&RangeOrder>)| {
        let sum = |of: fn(&RangeOrder) -> u64| orders.iter().map(|each| of(each)).sum();
        let mut ranges: Vec<_> = orders.iter().flat_map(|each| &each.ranges).copied().collect();
        ranges.sort_unstable();
        PageMove {
            from: orders.iter().flat_map(|each| each.from.iter()).collect(),
            to,
            pages_max: sum(|each| each.pages),
            saved_ns: sum(|each| each.saved_ns),
            cost_ns: sum(|each| each.cost_ns),
            ranges,
        }
    };
    by_node.into_iter().map(page_move).collect()
}

impl SpreadMemory {
    /// Returns the limits and costs of a choice by counts of a period of this length.
    pub fn rules(&self, period_ns: u64) -> HotPageRules {
        HotPageRules {
            costs: self.costs.clone(),
            destinations: self.nodes.clone(),
            misses_per_count: (self.horizon_ns / period_ns.max(1)).max(1),
            room: self.room.clone(),
        }
    }

    /// Returns the limits and costs of a choice by sampled time.
    pub fn time_rules(&self) -> TimeRules {
        TimeRules {
            costs: self.costs.clone(),
            destinations: self.nodes.clone(),
            memory_bound_ppm: self.memory_bound_ppm,
            horizon_ns: self.horizon_ns,
            room: self.room.clone(),
        }
    }

    /// Returns the folios of these pages and where they are, by address of the page.
    ///
    /// # Errors
    /// If the process is gone or cannot be read.
    pub fn places(
        &self,
        machine: &dyn Machine,
        pages: impl Iterator<Item = u64>,
    ) -> Result<BTreeMap<u64, FolioLocation>> {
        let mut seen = PageSet::new(machine.page_bytes());
        pages.for_each(|address| _ = seen.insert(address));
        locate_folios(machine, &*self.process, seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;

    fn order(pages: u64, is_divisible: bool) -> RangeOrder {
        RangeOrder {
            ranges: vec![Range::new(0, pages * PAGE)],
            is_divisible,
            pages,
            from: Nodemask::from_iter([NodeId(0)]),
            to: NodeId(1),
            saved_ns: 1000,
            cost_ns: 100,
        }
    }

    /// Goal: single pages that were moved before do not hold back the range around them; a folio
    /// moves whole or not at all; and a range most of which was moved before stays.
    #[test]
    fn what_was_moved_before_is_cut_out() {
        let mut held = PageSet::new(PAGE);
        held.insert(2 * PAGE);
        let left = order(10, true).without(&held).unwrap();
        let ranges = [Range::new(0, 2 * PAGE), Range::new(3 * PAGE, 10 * PAGE)];
        assert_eq!(left.ranges, ranges);
        // Nine of ten pages.
        assert_eq!((left.pages, left.saved_ns, left.cost_ns), (9, 900, 90));
        assert!(order(10, false).without(&held).is_none());
        held.insert_range(Range::new(5 * PAGE, 10 * PAGE));
        assert!(order(10, true).without(&held).is_none(), "four of ten are left");
        assert_eq!(order(2, false).without(&held).map(|left| left.pages), Some(2));
    }
}
