//! Chooses a node for each page of a process whose threads run on several nodes, from counts of the
//! accesses of each node to each page.
//!
//! The model is that of Menyhart's page migration for Itanium (2004): a page is worth its move if
//! the cheaper misses save more time than the move takes. A miss costs the latency between the node
//! of the CPU and that of the page. A move costs one transfer of each line over the same distance,
//! plus overhead. The destination is the node from which all counted misses together are cheapest:
//! with equal distances, the node that uses the page most.

use std::cmp::Reverse;

use nodeward_model::topology::Distances;
use nodeward_model::{NodeId, Nodemask, Range};

use crate::rank::REMOTE_DISTANCE;

pub use confirm::confirmed;
pub use counts::PageAccessCounts;
pub use folio_location::FolioLocation;

mod confirm;
mod counts;
mod folio_location;

/// The distance of a node to itself in the firmware's units.
const LOCAL_DISTANCE: u32 = 10;
/// Larger than any firmware distance (8 bits), so that sums of latencies fit 128 bits.
const DISTANCE_MAX: u32 = u16::MAX as u32;

/// The costs of misses and moves.
#[derive(Clone, Debug)]
pub struct MissCosts {
    /// The latency of a miss at distance 10, in nanoseconds.
    pub local_ns: u32,
    /// The distances between nodes; without them every other node is at distance 20.
    pub distances: Option<Distances>,
    /// The overhead of moving a folio, without the copy of its lines, in nanoseconds.
    pub admin_ns: u64,
    /// Bytes that one miss transfers; 64 on most machines.
    pub line_bytes: u64,
}

/// The latency of a miss to local memory: between 65 and 120 ns on servers of the last twenty
/// years. Only its ratio to the cost of a move matters.
const LOCAL_NS: u32 = 100;
const LINE_BYTES: u64 = 64;

impl MissCosts {
    /// Returns the costs of a machine of which only the distances are known. `admin_ns` is the
    /// overhead of moving a folio, without the copy of its lines.
    pub fn typical(distances: Option<Distances>, admin_ns: u64) -> Self {
        Self { local_ns: LOCAL_NS, distances, admin_ns, line_bytes: LINE_BYTES }
    }
}

/// Limits of the choice.
#[derive(Clone, Debug)]
pub struct HotPageRules {
    /// The costs of the machine.
    pub costs: MissCosts,
    /// The nodes that pages may go to.
    pub destinations: Nodemask,
    /// The number of future misses that each counted access stands for.
    pub misses_per_count: u64,
    /// Limit on the base pages to move.
    pub pages_max: u64,
}

/// A folio that is worth its move, and the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotMove {
    /// The address of its first page.
    pub address: u64,
    /// Its size in base pages.
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
    /// They are on their best node already.
    pub here_already: u64,
    /// Their move would cost as much as it saves, or more.
    pub does_not_pay: u64,
    /// They are beyond the page limit, because other moves gain more.
    pub beyond_cap: u64,
    /// They are on no node.
    pub not_in_memory: u64,
}

/// The result of the choice. Every counted page is within a folio of `moves`, or counted in
/// `remaining`.
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
    let (moves, beyond_cap) = within_cap(worthwhile, rules.pages_max);
    HotPlan { moves, remaining: RemainingPages { beyond_cap, ..kept } }
}

/// Returns the moves that fit into the page limit, the first ones first, and the counted pages of
/// the others. A small folio may fit after a large one that does not.
fn within_cap(worthwhile: Vec<(HotMove, u64)>, pages_max: u64) -> (Vec<HotMove>, u64) {
    let mut room = pages_max;
    let mut beyond = 0;
    let mut moves = Vec::new();
    for (best, counted) in worthwhile {
        match room.checked_sub(u64::from(best.pages)) {
            Some(rest) => {
                room = rest;
                moves.push(best);
            }
            None => beyond += counted,
        }
    }
    (moves, beyond)
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
        let cost_ns = self.move_ns(folio, to);
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
            u128::from(misses) * u128::from(self.latency(node, memory))
        };
        misses.iter().map(cost).sum()
    }

    /// Returns the cost of a miss of a CPU on `node`, in tenths of nanoseconds.
    fn latency(&self, node: NodeId, memory: NodeId) -> u64 {
        let unknown = if node == memory { LOCAL_DISTANCE } else { REMOTE_DISTANCE };
        let known = self.costs.distances.as_ref().and_then(|table| table.get(node, memory));
        u64::from(self.costs.local_ns) * u64::from(known.unwrap_or(unknown).min(DISTANCE_MAX))
    }

    /// Returns the cost of a move: the CPUs that copy are on the destination and read every line
    /// from the source.
    fn move_ns(&self, folio: FolioLocation, to: NodeId) -> u64 {
        let bytes = u128::from(folio.pages) * u128::from(self.page_bytes);
        let lines = bytes.div_ceil(u128::from(self.costs.line_bytes.max(1)));
        let copy = lines.saturating_mul(u128::from(self.latency(to, folio.node)));
        saturating_u64(copy.div_ceil(10)).saturating_add(self.costs.admin_ns)
    }
}

fn saturating_u64(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
