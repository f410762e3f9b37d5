//! Memory of a spread process that is worth its move, and the process itself as planners see it.

use std::collections::BTreeMap;

use nodeward_machine::Process;
use nodeward_model::{NodeId, Nodemask, Range};
use nodeward_policy::hot::{HotMove, HotPageRules, MissCosts, TimeRules};
use nodeward_policy::placement::{EntityId, MemoryMove, Reason};

/// A process whose pages are to be placed.
pub struct SpreadProcess<'a> {
    pub entity: EntityId,
    pub process: &'a dyn Process,
    /// The nodes that its pages may move to.
    pub nodes: &'a Nodemask,
    /// Time within which a move must pay, in nanoseconds.
    pub horizon_ns: u64,
    /// Base pages for which its home has room.
    pub pages_max: u64,
    pub costs: MissCosts,
    /// The part of its run time that a thread waits for local memory, in ppm.
    pub memory_bound_ppm: u32,
}

/// Memory that is worth its move, and the destination.
#[derive(Clone, Debug)]
pub struct RangeOrder {
    pub range: Range,
    /// The base pages in it that move at most.
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
            range: folio.range(page_bytes),
            pages: u64::from(folio.pages),
            from: Nodemask::from_iter([folio.from]),
            to: folio.to,
            saved_ns: folio.saved_ns,
            cost_ns: folio.cost_ns,
        }
    }
}

/// A memory move to one node, and the ranges of its pages.
pub type PageMove = (MemoryMove, Vec<Range>);

impl SpreadProcess<'_> {
    /// Returns the limits and costs of a choice by counts of a period of this length.
    pub fn rules(&self, period_ns: u64) -> HotPageRules {
        HotPageRules {
            costs: self.costs.clone(),
            destinations: self.nodes.clone(),
            misses_per_count: (self.horizon_ns / period_ns.max(1)).max(1),
            pages_max: self.pages_max,
        }
    }

    /// Returns the limits and costs of a choice by sampled time.
    pub fn time_rules(&self) -> TimeRules {
        TimeRules {
            costs: self.costs.clone(),
            destinations: self.nodes.clone(),
            memory_bound_ppm: self.memory_bound_ppm,
            horizon_ns: self.horizon_ns,
            pages_max: self.pages_max,
        }
    }

    /// Groups orders by destination.
    pub fn page_moves(&self, orders: &[RangeOrder]) -> Vec<PageMove> {
        let mut by_node: BTreeMap<NodeId, Vec<&RangeOrder>> = BTreeMap::new();
        orders.iter().for_each(|each| by_node.entry(each.to).or_default().push(each));
        let page_move = |(to, orders): (NodeId, Vec<&RangeOrder>)| {
            let sum = |of: fn(&RangeOrder) -> u64| orders.iter().map(|each| of(each)).sum();
            let order = MemoryMove {
                entity: self.entity,
                from: orders.iter().flat_map(|each| each.from.iter()).collect(),
                to,
                pages_max: sum(|each| each.pages),
                gain_ns: sum(|each| each.saved_ns),
                cost_ns: sum(|each| each.cost_ns),
                reason: Reason::ByPage,
            };
            let mut ranges: Vec<_> = orders.iter().map(|each| each.range).collect();
            ranges.sort_unstable();
            (order, ranges)
        };
        by_node.into_iter().map(page_move).collect()
    }
}
