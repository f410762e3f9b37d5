//! Memory that is worth its move, and the spread process or segment that has it, as planners see
//! it.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodeward_machine::{Machine, Process, Result};
use nodeward_model::{NodeId, Nodemask, PageSet, Range};
use nodeward_mover::{MemoryUsers, locate_folios};
use nodeward_policy::hot::{FolioTable, HotMove, HotPageRules, MissCosts, PageRoom, TimeRules};

use super::pending::join;

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
    /// Maximum number of base pages that move.
    pub pages: u64,
    pub from: Nodemask,
    pub to: NodeId,
    pub saved_ns: u64,
    pub cost_ns: u64,
}

impl RangeOrder {
    /// Returns the move of folios to one node.
    fn of_folios(to: NodeId, folios: &[&HotMove], page_bytes: u64) -> Self {
        let sum = |of: fn(&HotMove) -> u64| {
            folios.iter().map(|folio| of(folio)).fold(0, u64::saturating_add)
        };
        let mut ranges: Vec<_> = folios.iter().map(|folio| folio.range(page_bytes)).collect();
        ranges.sort_unstable();
        Self {
            ranges: join(&ranges, 0),
            pages: sum(|folio| u64::from(folio.pages)),
            from: folios.iter().map(|folio| folio.from).collect(),
            to,
            saved_ns: sum(|folio| folio.saved_ns),
            cost_ns: sum(|folio| folio.cost_ns),
        }
    }

    /// Returns what is left without the pages of a set; `None` if that is less than half: what was
    /// moved before says that this is in doubt.
    pub fn without(self, held: &PageSet) -> Option<Self> {
        if self.ranges.iter().all(|range| held.count_in(*range) == 0) {
            return Some(self);
        }
        let left = self.ranges.iter().flat_map(|range| held.ranges_without(*range));
        let left: Vec<Range> = left.collect();
        let bytes = |ranges: &[Range]| ranges.iter().map(|range| range.bytes()).sum::<u64>();
        let (before, after) = (bytes(&self.ranges), bytes(&left));
        let part = |number: u64| {
            let part = u128::from(number) * u128::from(after) / u128::from(before.max(1));
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        (after > before / 2).then(|| Self {
            pages: part(self.pages),
            saved_ns: part(self.saved_ns),
            cost_ns: part(self.cost_ns),
            ranges: left,
            ..self
        })
    }
}

/// Memory that is worth its move.
#[derive(Clone, Debug, Default)]
pub struct ChosenMemory {
    pub ranges: Vec<RangeOrder>,
    /// Single folios, in any order.
    pub folios: Vec<HotMove>,
}

impl ChosenMemory {
    /// Returns the orders for what is left without the pages of a set. A folio of which a page is
    /// in it stays whole.
    pub fn without(self, held: &PageSet, page_bytes: u64) -> Vec<RangeOrder> {
        let is_new = |folio: &&HotMove| held.count_in(folio.range(page_bytes)) == 0;
        let mut by_node: BTreeMap<NodeId, Vec<&HotMove>> = BTreeMap::new();
        let folios = self.folios.iter().filter(is_new);
        folios.for_each(|folio| by_node.entry(folio.to).or_default().push(folio));
        let folios = by_node.iter().map(|(&to, them)| RangeOrder::of_folios(to, them, page_bytes));
        self.ranges.into_iter().filter_map(|order| order.without(held)).chain(folios).collect()
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

    /// Returns the folios of these pages and where they are.
    ///
    /// # Errors
    /// If the process is gone or cannot be read.
    pub fn places(
        &self,
        machine: &dyn Machine,
        pages: impl Iterator<Item = u64>,
    ) -> Result<FolioTable> {
        let mut seen = PageSet::new(machine.page_bytes());
        pages.for_each(|address| _ = seen.insert(address));
        locate_folios(machine, &*self.process, seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;

    fn order(pages: u64) -> RangeOrder {
        RangeOrder {
            ranges: vec![Range::new(0, pages * PAGE)],
            pages,
            from: Nodemask::from_iter([NodeId(0)]),
            to: NodeId(1),
            saved_ns: 1000,
            cost_ns: 100,
        }
    }

    /// Goal: single pages that were moved before do not hold back the range around them; a range
    /// most of which was moved before stays.
    #[test]
    fn what_was_moved_before_is_cut_out() {
        let mut held = PageSet::new(PAGE);
        held.insert(2 * PAGE);
        let left = order(10).without(&held).unwrap();
        let ranges = [Range::new(0, 2 * PAGE), Range::new(3 * PAGE, 10 * PAGE)];
        assert_eq!(left.ranges, ranges);
        // Nine of ten pages.
        assert_eq!((left.pages, left.saved_ns, left.cost_ns), (9, 900, 90));
        held.insert_range(Range::new(5 * PAGE, 10 * PAGE));
        assert!(order(10).without(&held).is_none(), "four of ten are left");
        assert_eq!(order(2).without(&held).map(|left| left.pages), Some(2));
    }

    /// Goal: folios go to each node together, whatever their order; one of which a page was moved
    /// before stays whole.
    #[test]
    fn folios_of_a_node_go_together() {
        let folio = |first: u64, pages, to| HotMove {
            address: first * PAGE,
            pages,
            from: NodeId(1 - to),
            to: NodeId(to),
            saved_ns: 50,
            cost_ns: 10,
        };
        let folios =
            vec![folio(9, 1, 1), folio(4, 4, 1), folio(3, 1, 0), folio(8, 1, 1), folio(20, 2, 1)];
        let chosen = ChosenMemory { ranges: vec![order(2)], folios };
        let mut held = PageSet::new(PAGE);
        held.insert(21 * PAGE);
        let orders = chosen.without(&held, PAGE);
        let ranges = |at: usize| &orders[at].ranges[..];
        assert_eq!(ranges(0), [Range::new(0, 2 * PAGE)]);
        assert_eq!(ranges(1), [Range::new(3 * PAGE, 4 * PAGE)]);
        assert_eq!(ranges(2), [Range::new(4 * PAGE, 10 * PAGE)]);
        let to_one = &orders[2];
        // Four pages and two folios of one.
        assert_eq!((to_one.pages, to_one.saved_ns, to_one.cost_ns), (6, 150, 30));
        assert_eq!(
            (to_one.to, to_one.from.iter().collect::<Vec<_>>()),
            (NodeId(1), vec![NodeId(0)])
        );
    }
}
