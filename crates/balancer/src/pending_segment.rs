//! A move of a segment that is on its way, over as many rounds as the budget takes. Where it stands
//! is told by an offset in the segment, so that another process that maps it may go on with it.

use nodeward_model::{Account, NodeId, Nodemask, Range};
use nodeward_policy::placement::{Plan, Rules, SegmentMove};

use super::pending::LENIENT_PART;

/// Parts of a segment that is spread go to its nodes in turn. A part is a huge page at least...
const PART_BYTES_MIN: u64 = 2 << 20;
/// ...and there are no more than about so many.
const PARTS_MAX: u64 = 4096;

/// A segment on its way.
pub struct PendingSegment {
    pub order: SegmentMove,
    pub left_pages: u64,
    /// The ranges to move, by offset in ascending order; all of the segment if `None`.
    pub ranges: Option<Vec<Range>>,
    /// Bytes of the segment below this offset were gone through.
    pub cursor: u64,
    /// What became of the pages that were gone through.
    pub account: Account,
}

impl PendingSegment {
    /// A segment that sets out: all of it, or only these ranges.
    pub fn new(order: SegmentMove, ranges: Option<Vec<Range>>) -> Self {
        let account = Account::default();
        Self { left_pages: order.pages_max, order, ranges, cursor: 0, account }
    }

    /// Whether a plan still wants it there.
    pub fn is_wanted(&self, plan: &Plan) -> bool {
        let at = plan.segments.binary_search_by_key(&self.order.segment, |it| it.segment);
        at.is_ok_and(|at| plan.segments[at].nodes == self.order.target)
    }

    /// Whether it still pays at this cost of a page, which may have been learnt since.
    pub fn pays(&self, rules: &Rules) -> bool {
        let gain_ns = self.order.gain_ns.saturating_add(self.order.gain_ns / LENIENT_PART);
        gain_ns > rules.move_ns(self.order.pages_max)
    }

    /// The offsets that are still to be gone through, in a segment of so many bytes.
    pub fn parts(&self, bytes: u64) -> Vec<Range> {
        match &self.ranges {
            Some(_) => self.unvisited(),
            None => self.behind(&parts_of(bytes, &self.order.target, self.order.to)),
        }
    }

    /// Those of its ranges that are still to be gone through; none if all of the segment moves.
    pub fn unvisited(&self) -> Vec<Range> {
        self.ranges.as_ref().map_or(Vec::new(), |ranges| self.behind(ranges))
    }

    fn behind(&self, parts: &[Range]) -> Vec<Range> {
        let behind = Range::new(self.cursor, u64::MAX);
        parts.iter().filter_map(|part| part.intersection(behind)).collect()
    }
}

/// The parts of a segment that belong on one of these nodes, as offsets.
fn parts_of(bytes: u64, nodes: &Nodemask, node: NodeId) -> Vec<Range> {
    let Some(position) = nodes.iter().position(|it| it == node) else { return Vec::new() };
    let count = nodes.len() as u64;
    let part = bytes.div_ceil(PARTS_MAX).next_multiple_of(PART_BYTES_MIN);
    match count {
        1 => vec![Range::new(0, u64::MAX)],
        _ => (position as u64..bytes.div_ceil(part))
            .step_by(nodes.len())
            .map(|number| Range::new(number * part, (number + 1) * part))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a segment on one node is one part, however long it gets; one on three nodes goes to
    /// them in turn, each huge page to one of them. One of 32 GiB has parts of 8 MiB, 4096 in all.
    #[test]
    fn parts_go_to_nodes_in_turn() {
        const MIB: u64 = 1 << 20;
        let nodes = |list: &[u32]| list.iter().copied().map(NodeId).collect::<Nodemask>();
        assert_eq!(parts_of(100 * MIB, &nodes(&[4]), NodeId(4)), [Range::new(0, u64::MAX)]);
        assert_eq!(parts_of(100 * MIB, &nodes(&[4]), NodeId(5)), []);
        let starts = |bytes, node| -> Vec<_> {
            let parts = parts_of(bytes, &nodes(&[0, 2, 5]), NodeId(node));
            parts.iter().map(|part| (part.start / MIB, part.bytes() / MIB)).collect()
        };
        assert_eq!(starts(13 * MIB, 0), [(0, 2), (6, 2), (12, 2)]);
        assert_eq!(starts(13 * MIB, 2), [(2, 2), (8, 2)]);
        assert_eq!(starts(13 * MIB, 5), [(4, 2), (10, 2)]);
        let all: usize = [0, 2, 5].map(|node| starts(32 << 30, node).len()).iter().sum();
        assert_eq!((all, starts(32 << 30, 2)[0]), (4096, (8, 8)));
    }
}
