//! A pending memory move, which may take many rounds within its budget.

use std::collections::BTreeMap;

use nodeward_model::{Account, NodeId, PageSet, Range, SkipReason};
use nodeward_policy::placement::{
    EntityId, Home, MemoryMove, Numbers, Plan, Reason, Rules, Verdict,
};

/// A move continues until its cost exceeds its gain by one part in this number. Ending and
/// restarting a move takes two samples, so a small loss is no reason to end it.
pub const LENIENT_PART: u64 = 4;
/// Pages between two ranges that are read rather than passed by: to begin a new range costs more.
const GAP_PAGES_MAX: u64 = 16;

/// A memory move in progress. The decision about the process waits until the move has ended,
/// because a part of a move says nothing about the gain of the whole.
pub struct PendingMove {
    pub order: MemoryMove,
    pub left_pages: u64,
    /// All pages below this address have been visited.
    pub cursor: u64,
    /// Ranges of the pages to move, in ascending order; all memory of the process if `None`.
    pub ranges: Option<Vec<Range>>,
    /// The account of the visited pages.
    pub account: Account,
}

impl PendingMove {
    /// Creates a pending move: of all memory, or only of the given ranges.
    pub fn new(order: MemoryMove, ranges: Option<Vec<Range>>) -> Self {
        let account = Account::default();
        Self { left_pages: order.pages_max, cursor: 0, order, ranges, account }
    }

    /// Returns the entity whose memory moves.
    pub fn entity(&self) -> EntityId {
        self.order.entity
    }

    /// Returns whether the move is of single pages only.
    pub fn is_of_pages(&self) -> bool {
        self.ranges.is_some()
    }

    /// Returns the ranges that were not visited; none if all memory was to move.
    pub fn unvisited(&self) -> Vec<Range> {
        let behind = Range::new(self.cursor, u64::MAX);
        let ranges = self.ranges.iter().flatten();
        ranges.filter_map(|range| range.intersection(behind)).collect()
    }

    /// Returns whether a plan still wants this move. Updates the gain.
    pub fn is_wanted(&mut self, plan: &Plan) -> bool {
        let entity = self.order.entity;
        if let Ok(at) = plan.decisions.binary_search_by_key(&entity, |it| it.entity) {
            let decision = &plan.decisions[at];
            let is_kernels = [Some(Reason::KernelPrefers), Some(Reason::ByKernel)];
            if decision.verdict == Verdict::Left || is_kernels.contains(&decision.memory) {
                return false;
            }
            self.weigh(&plan.decisions[at].numbers);
        }
        plan.homes.get(&entity).is_some_and(|home| holds(home, self.order.to))
    }

    /// Returns whether the move still pays at the present cost of a page, or was ordered.
    pub fn pays(&self, rules: &Rules) -> bool {
        let gain_ns = self.order.gain_ns.saturating_add(self.order.gain_ns / LENIENT_PART);
        self.order.reason == Reason::GroupHome || gain_ns > rules.move_ns(self.order.pages_max)
    }

    /// Returns the ranges to move among those that may be moved, and the pages in them that are
    /// meant, if not all are.
    pub fn memory_within(
        &self,
        free: Vec<Range>,
        page_bytes: u64,
    ) -> (Vec<Range>, Option<PageSet>) {
        match &self.ranges {
            Some(ranges) => joined(&common(ranges, &free), page_bytes),
            None => (free, None),
        }
    }

    /// Updates the gain: the process may run more than at first, and has run for longer.
    fn weigh(&mut self, numbers: &Numbers) {
        if numbers.pages_away > 0 && !self.is_of_pages() {
            let part = u128::from(numbers.gain_ns) * u128::from(self.order.pages_max);
            let gain_ns = part / u128::from(numbers.pages_away);
            self.order.gain_ns = u64::try_from(gain_ns).unwrap_or(u64::MAX);
        }
    }
}

/// Returns the number of pages that are not on a node of their home.
pub fn pages_away(pages: &BTreeMap<NodeId, u64>, home: &Home) -> u64 {
    pages.iter().filter(|&(&node, _)| !holds(home, node)).map(|(_, pages)| pages).sum()
}

/// Returns whether memory belongs on a node.
fn holds(home: &Home, node: NodeId) -> bool {
    match home {
        Home::Node(home) => *home == node,
        Home::Spread(nodes) | Home::Interleave { memory: nodes, .. } => nodes.contains(node),
    }
}

/// Returns the number of pages that will not move next time either.
pub fn stuck(skipped: &BTreeMap<SkipReason, u64>) -> u64 {
    let lasts = |reason: &SkipReason| {
        !matches!(
            reason,
            SkipReason::NotPresent
                | SkipReason::Swapped
                | SkipReason::NoMemory
                | SkipReason::Interrupted
                | SkipReason::Gone
        )
    };
    skipped.iter().filter(|(reason, _)| lasts(reason)).map(|(_, pages)| pages).sum()
}

/// Joins ranges between which little lies, so that scattered pages are found in few steps. Returns
/// the joined ranges, and the pages that are meant if not all in them are.
pub fn joined(ranges: &[Range], page_bytes: u64) -> (Vec<Range>, Option<PageSet>) {
    let joined = join(ranges, GAP_PAGES_MAX * page_bytes);
    let bytes = |ranges: &[Range]| ranges.iter().map(|range| range.bytes()).sum::<u64>();
    let pages = (bytes(&joined) > bytes(ranges)).then(|| {
        let mut pages = PageSet::new(page_bytes);
        ranges.iter().for_each(|range| pages.insert_range(*range));
        pages
    });
    (joined, pages)
}

/// Joins ascending ranges that have at most so many bytes between them.
pub fn join(ranges: &[Range], gap_bytes_max: u64) -> Vec<Range> {
    let mut joined: Vec<Range> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start - last.end <= gap_bytes_max => last.end = range.end,
            _ => joined.push(*range),
        }
    }
    joined
}

/// Returns the intersection of two lists of ranges, both ascending and without overlap.
fn common(ranges: &[Range], others: &[Range]) -> Vec<Range> {
    let parts = |range: &Range| {
        let from = others.partition_point(|other| other.end <= range.start);
        let range = *range;
        others[from..].iter().map_while(move |other| other.intersection(range))
    };
    ranges.iter().flat_map(parts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: ranges with up to 16 pages between them are one, with the pages that are meant; those
    /// that touch need no list of pages, and those farther apart stay two.
    #[test]
    fn near_ranges_are_joined() {
        let pages = |first: u64, end: u64| Range::new(first * 4096, end * 4096);
        let scattered = [pages(0, 1), pages(2, 3), pages(19, 20), pages(37, 40)];
        let (ranges, meant) = joined(&scattered, 4096);
        assert_eq!(ranges, [pages(0, 20), pages(37, 40)]);
        let meant: Vec<u64> = meant.unwrap().iter().map(|address| address / 4096).collect();
        assert_eq!(meant, [0, 2, 19, 37, 38, 39]);
        assert_eq!(joined(&[pages(0, 3), pages(3, 9)], 4096), (vec![pages(0, 9)], None));
        let apart = vec![pages(0, 3), pages(20, 21)];
        assert_eq!(joined(&apart, 4096), (apart, None));
        assert_eq!(joined(&[], 4096), (Vec::new(), None));
    }

    /// Goal: the intersection of two lists of ranges is cut at the ends of both.
    #[test]
    fn ranges_are_cut_by_others() {
        let ranges = |list: &[(u64, u64)]| -> Vec<Range> {
            list.iter().map(|&(start, end)| Range::new(start, end)).collect()
        };
        let folios = ranges(&[(0, 10), (10, 20), (30, 50), (60, 70)]);
        let free = ranges(&[(5, 12), (32, 34), (36, 40), (45, 65), (80, 90)]);
        let both = [(5, 10), (10, 12), (32, 34), (36, 40), (45, 50), (60, 65)];
        assert_eq!(common(&folios, &free), ranges(&both));
        assert_eq!(common(&free, &[]), []);
    }
}
