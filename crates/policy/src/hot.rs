//! Chooses a node for each page of a process whose threads run on several nodes, from counts of the
//! accesses of each node to each page.
//!
//! The model is that of Menyhart's page migration for Itanium (2004): a page is worth its move if
//! the cheaper misses save more time than the move takes. A miss costs the latency between the node
//! of the CPU and that of the page. A move costs one transfer of each line over the same distance,
//! plus overhead. The destination is the node from which all counted misses together are cheapest:
//! with equal distances, the node that uses the page most.

use std::cmp::Reverse;

use nodeward_model::{NodeId, Nodemask, Range};

use costs::saturating_u64;

pub use confirm::confirmed;
pub use costs::MissCosts;
pub use counts::PageAccessCounts;
pub use folio_location::FolioLocation;
pub use folio_table::FolioTable;
pub use page_room::PageRoom;
pub use sampled_pages::{pages_seen_again, plan_sampled_pages};
pub use samples::{PeriodTimes, SampleHistory, SamplePeriod};
pub use time_rules::TimeRules;
pub use written_pages::{PageWriters, RemoteTime, WrittenPages, plan_written_pages, remote_time};

pub mod ranges;

mod confirm;
mod costs;
mod counts;
mod evidence;
mod folio_location;
mod folio_table;
mod page_room;
mod promises;
mod sampled_pages;
mod samples;
mod time_rules;
mod written_pages;

/// Limits of the choice.
#[derive(Clone, Debug)]
pub struct HotPageRules {
    /// The costs of the machine.
    pub costs: MissCosts,
    /// The nodes that pages may go to.
    pub destinations: Nodemask,
    /// The number of future misses that each counted access stands for.
    pub misses_per_count: u64,
    /// Limits on the base pages to move.
    pub room: PageRoom,
}

/// A folio that is worth its move, and the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotMove {
    /// The address of its first page.
    pub address: u64,
    /// The size of the folio in base pages.
    pub pages: u32,
    /// The source node.
    pub from: NodeId,
    /// The destination node.
    pub to: NodeId,
    /// The time that its misses save there, in nanoseconds.
    pub saved_ns: u64,
    /// The cost of the move, in nanoseconds; less than is saved.
    pub cost_ns: u64,
}

impl HotMove {
    /// Returns the addresses of its pages.
    pub fn range(&self, page_bytes: u64) -> Range {
        let bytes = u64::from(self.pages).saturating_mul(page_bytes);
        Range::new(self.address, self.address.saturating_add(bytes))
    }

    /// Returns the net time saved, in nanoseconds.
    pub fn gain_ns(&self) -> u64 {
        self.saved_ns - self.cost_ns
    }
}

/// Counted pages that stay, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemainingPages {
    /// Folios that are on their best node already.
    pub here_already: u64,
    /// Folios whose move would cost as much as it saves, or more.
    pub does_not_pay: u64,
    /// Folios beyond the page limit, because other moves gain more.
    pub beyond_cap: u64,
    /// Folios that are on no node.
    pub not_in_memory: u64,
}

/// The result of the choice. Every counted page is within a folio of `moves`, or in `kept`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HotPlan {
    /// The folios to move, in descending order of their gain; equal ones in order of their address.
    pub moves: Vec<HotMove>,
    /// The counted pages that stay.
    pub remaining: RemainingPages,
}

/// Chooses for all counted pages. `place_of` maps the address of a page to its folio and place; it
/// is called once for each folio.
pub fn plan_moves(
    counts: &PageAccessCounts,
    place_of: impl Fn(u64) -> Option<FolioLocation>,
    rules: &HotPageRules,
) -> HotPlan {
    let chooser = MoveEvaluator::new(rules, counts);
    let mut kept = RemainingPages::default();
    let mut worthwhile = Vec::new();
    counts.for_each_folio(place_of, |folio, pages, accesses| {
        let Some(folio) = folio else {
            kept.not_in_memory += pages;
            return;
        };
        for access in accesses.iter_mut() {
            access.1 = access.1.saturating_mul(rules.misses_per_count);
        }
        match chooser.best_move(folio, accesses) {
            None => kept.here_already += pages,
            Some(best) if best.saved_ns <= best.cost_ns => kept.does_not_pay += pages,
            Some(best) => worthwhile.push((best, pages)),
        }
    });
    worthwhile.sort_unstable_by_key(|(best, _)| (Reverse(best.gain_ns()), best.address));
    let (moves, beyond_cap) = within_room(worthwhile, rules.room.clone());
    HotPlan { moves, remaining: RemainingPages { beyond_cap, ..kept } }
}

/// Returns the moves that there is room for, the first ones first, and the counted pages of the
/// others. A small folio may fit after a large one that does not.
fn within_room(worthwhile: Vec<(HotMove, u64)>, mut room: PageRoom) -> (Vec<HotMove>, u64) {
    let (fit, beyond): (Vec<_>, Vec<_>) =
        worthwhile.into_iter().partition(|(best, _)| room.take(best.to, u64::from(best.pages)));
    let counted = beyond.iter().map(|(_, counted)| counted).sum();
    (fit.into_iter().map(|(best, _)| best).collect(), counted)
}

struct MoveEvaluator<'a> {
    costs: &'a MissCosts,
    destinations: Vec<NodeId>,
    page_bytes: u64,
}

impl<'a> MoveEvaluator<'a> {
    fn new(rules: &'a HotPageRules, counts: &PageAccessCounts) -> Self {
        Self {
            costs: &rules.costs,
            destinations: rules.destinations.iter().collect(),
            page_bytes: counts.page_bytes(),
        }
    }

    /// Returns the move to the node where the misses cost least; `None` if the folio is there. Of
    /// nodes with equal cost the folio's own is preferred, then the lowest.
    fn best_move(&self, folio: FolioLocation, misses: &[(NodeId, u64)]) -> Option<HotMove> {
        let here = (self.misses_cost(misses, folio.node), folio.node);
        let there = self.destinations.iter().map(|&node| (self.misses_cost(misses, node), node));
        let (cost, to) = there.min().filter(|there| there.0 < here.0)?;
        let bytes = u64::from(folio.pages).saturating_mul(self.page_bytes);
        let cost_ns = self.costs.move_ns(bytes, folio.node, to);
        let saved_ns = saturating_u64((here.0 - cost) / 10);
        Some(HotMove {
            address: folio.address,
            pages: folio.pages,
            from: folio.node,
            to,
            saved_ns,
            cost_ns,
        })
    }

    /// Returns the cost of the misses of these nodes with the page on `memory`, in tenths of
    /// nanoseconds. Below 2^122: a count has 64 bits, a latency 48, and there are at most 1024
    /// nodes.
    fn misses_cost(&self, misses: &[(NodeId, u64)], memory: NodeId) -> u128 {
        let cost = |&(node, misses): &(NodeId, u64)| {
            u128::from(misses) * u128::from(self.costs.latency(node, memory))
        };
        misses.iter().map(cost).sum()
    }
}

#[cfg(test)]
mod tests;
