//! A memory move that is on its way, over as many rounds as the budget takes.

use std::collections::BTreeMap;

use nodeward_model::{Account, NodeId, Range, SkipReason};
use nodeward_policy::placement::{EntityId, Home, MemoryMove, Numbers, Plan, Rules, Verdict};

use super::process_table::ProcessState;

/// A move goes on until it costs more than it gains by one in so many parts: to end it and begin
/// again takes two samples, so it is not given up for next to nothing.
const LENIENT_PART: u64 = 4;

/// Memory on its way home. The decision waits until it is there: what a part of a move brought says
/// nothing about the whole.
pub struct PendingMove {
    pub order: MemoryMove,
    pub left_pages: u64,
    /// Pages below this address were gone through.
    pub cursor: u64,
    /// Where the pages lie that are meant, in ascending order; all that its process has if `None`.
    pub ranges: Option<Vec<Range>>,
    /// What became of those that were gone through.
    pub account: Account,
}

impl PendingMove {
    /// Memory that sets out; that in these ranges only, if there are any.
    pub fn new(order: MemoryMove, ranges: Option<Vec<Range>>) -> Self {
        let account = Account::default();
        Self { left_pages: order.pages_max, cursor: 0, order, ranges, account }
    }

    /// Whose memory it is.
    pub fn entity(&self) -> EntityId {
        self.order.entity
    }

    /// Whether only some pages are meant, each for itself.
    pub fn is_of_pages(&self) -> bool {
        self.ranges.is_some()
    }

    /// Whether a plan still wants it. What it gains is judged anew.
    pub fn is_wanted(&mut self, plan: &Plan) -> bool {
        let entity = self.order.entity;
        if let Ok(at) = plan.decisions.binary_search_by_key(&entity, |it| it.entity) {
            if plan.decisions[at].verdict == Verdict::Left {
                return false;
            }
            self.weigh(&plan.decisions[at].numbers);
        }
        plan.homes.get(&entity).is_some_and(|home| holds(home, self.order.to))
    }

    /// Whether it still pays at this cost of a page, which may have been learnt since.
    pub fn pays(&self, rules: &Rules) -> bool {
        let gain_ns = self.order.gain_ns.saturating_add(self.order.gain_ns / LENIENT_PART);
        gain_ns > rules.move_ns(self.order.pages_max)
    }

    /// Where the pages lie that may be moved, of these ranges.
    pub fn ranges_within(&self, free: Vec<Range>) -> Vec<Range> {
        match &self.ranges {
            Some(ranges) => common(ranges, &free),
            None => free,
        }
    }

    /// A process runs more than when it was first seen, or longer already.
    fn weigh(&mut self, numbers: &Numbers) {
        if numbers.pages_away > 0 && !self.is_of_pages() {
            let part = u128::from(numbers.gain_ns) * u128::from(self.order.pages_max);
            let gain_ns = part / u128::from(numbers.pages_away);
            self.order.gain_ns = u64::try_from(gain_ns).unwrap_or(u64::MAX);
        }
    }
}

impl ProcessState {
    /// Notes the pages of a move that stayed where they are, on all of its way so far.
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

/// Pages that are away from where they belong.
pub fn pages_away(pages: &BTreeMap<NodeId, u64>, home: &Home) -> u64 {
    pages.iter().filter(|&(&node, _)| !holds(home, node)).map(|(_, pages)| pages).sum()
}

/// Whether memory belongs on a node.
fn holds(home: &Home, node: NodeId) -> bool {
    match home {
        Home::Node(home) => *home == node,
        Home::Spread(nodes) | Home::Interleave { memory: nodes, .. } => nodes.contains(node),
    }
}

/// Pages that will not move next time either.
fn stuck(skipped: &BTreeMap<SkipReason, u64>) -> u64 {
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

/// What of some ranges lies in others; both ascend and do not overlap.
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

    /// Goal: what is common to two lists of ranges is cut at the ends of both.
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
