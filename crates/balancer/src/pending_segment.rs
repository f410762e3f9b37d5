//! A pending move of a segment, which may take many rounds within its budget. Its progress is an
//! offset in the segment, so that another process that maps the segment may continue the move.

use nodeward_model::{Account, NodeId, Nodemask, Range};
use nodeward_policy::placement::{Plan, Rules, SegmentMove};

use super::pending::LENIENT_PART;

/// Minimum size of a part, in bytes: a huge page. The parts of a segment that is spread go to its
/// nodes in turn.
const PART_BYTES_MIN: u64 = 2 << 20;
/// Maximum number of parts, approximately.
const PARTS_MAX: u64 = 4096;

/// A pending move of a segment.
pub struct PendingSegment {
    pub order: SegmentMove,
    pub left_pages: u64,
    /// The ranges to move, by offset in ascending order; all of the segment if `None`.
    pub ranges: Option<Vec<Range>>,
    /// Bytes of the segment below this offset were gone through.
    pub cursor: u64,
    /// The account of the visited pages.
    pub account: Account,
}

impl PendingSegment {
    /// Creates a pending move: of the whole segment, or only of the given ranges.
    pub fn new(order: SegmentMove, ranges: Option<Vec<Range>>) -> Self {
        let account = Account::default();
        Self { left_pages: order.pages_max, order, ranges, cursor: 0, account }
    }

    /// Returns whether a plan still wants the segment on its target.
    pub fn is_wanted(&self, plan: &Plan) -> bool {
        let at = plan.segments.binary_search_by_key(&self.order.segment, |it| it.segment);
        at.is_ok_and(|at| plan.segments[at].nodes == self.order.target)
    }

    /// Returns whether the move still pays at the present cost of a page, which the rules have.
    pub fn pays(&self, rules: &Rules) -> bool {
        let gain_ns = self.order.gain_ns.saturating_add(self.order.gain_ns / LENIENT_PART);
        gain_ns > rules.move_ns(self.order.pages_max)
    }

    /// Returns the offsets that are still to be visited, in a segment of `bytes` bytes.
    pub fn parts(&self, bytes: u64) -> Vec<Range> {
        match &self.ranges {
            Some(_) => self.unvisited(),
            None => self.behind(&parts_of(bytes, &self.order.target, self.order.to)),
        }
    }

    /// Returns the given ranges that are still to be visited; none if all of the segment moves.
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
