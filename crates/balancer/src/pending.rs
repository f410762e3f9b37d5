//! A pending memory move, which may take many rounds within its budget.

use std::collections::BTreeMap;

use nodeward_model::{Account, NodeId, Range, SkipReason};
use nodeward_policy::placement::{
    EntityId, Home, MemoryMove, Numbers, Plan, Reason, Rules, Verdict,
};

use super::process_table::ProcessState;

/// A move continues until its cost exceeds its gain by one part in so many. Ending and restarting a
/// move takes two samples, so a small loss is no reason to end it.
pub const LENIENT_PART: u64 = 4;

/// A memory move in progress. The decision about the process waits until the move has ended,
/// because a part of a move says nothing about the gain of the whole.
pub struct PendingMove {
    pub order: MemoryMove,
    pub left_pages: u64,
    /// All pages below this address have been visited.
    pub cursor: u64,
    /// Ranges of the pages to move, in ascending order; all memory of the process if `None`.
    pub ranges: Option<Vec<Range>>,
    /// What became of the visited pages.
    pub account: Account,
}

impl PendingMove {
    /// Creates a pending move: of all memory, or only of the given ranges.
    pub fn new(order: MemoryMove, ranges: Option<Vec<Range>>) -> Self {
        let account = Account::default();
        Self { left_pages: order.pages_max, cursor: 0, order, ranges, account }
    }

    /// Returns the entity whose memory it is.
    pub fn entity(&self) -> EntityId {
        self.order.entity
    }

    /// Returns whether it moves single pages only.
    pub fn is_of_pages(&self) -> bool {
        self.ranges.is_some()
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

    /// Returns whether the move still pays at the present cost of a page.
    pub fn pays(&self, rules: &Rules) -> bool {
        let gain_ns = self.order.gain_ns.saturating_add(self.order.gain_ns / LENIENT_PART);
        gain_ns > rules.move_ns(self.order.pages_max)
    }

    /// Returns the ranges to move among those that may be moved.
    pub fn ranges_within(&self, free: Vec<Range>) -> Vec<Range> {
        match &self.ranges {
            Some(ranges) => common(ranges, &free),
            None => free,
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

impl ProcessState {
    /// Adds the pages that a move could not move, over all its rounds.
    pub fn note_stuck(&mut self, one: &PendingMove) {
        let mut left = stuck(&one.account.skipped);
        if left > 0 {
            self.stuck.ago_ns = 0;
        }
        let pages = self.sample.as_ref().map(|sample| &sample.pages);
        for node in one.order.from.iter() {
            let on = pages.and_then(|pages| pages.get(&node)).copied().unwrap_or(0);
            let stuck = left.min(on);
            let known = self.stuck.by_node.entry(node).or_default();
            *known = stuck.max(*known);
            left -= stuck;
        }
    }
}

/// Returns the number of pages that are not on their home.
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
