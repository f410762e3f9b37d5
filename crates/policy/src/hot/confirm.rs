//! Confirms moves, which one set of counts suggested, with a second set.
//!
//! The highest of some counts is high by chance too: if all nodes use a page equally, one of them
//! seems to use it most in any short time. Counts that were not used to choose the moves have no
//! such bias. For pages that are used equally they confirm on average nothing of the promised gain,
//! and then no move is believed.

use super::costs::saturating_u64;
use super::{HotMove, HotPageRules, MoveEvaluator, PageAccessCounts};

/// The inverse of the part of the moves whose folios must have been counted again.
const RECOUNTED_ONE_IN: usize = 4;

/// Returns the moves that pay off by both counts together, with the mean of their two savings. None
/// at all if the folios that were counted again would save less than half of the promised time, or
/// all moves together less than they cost.
///
/// The counts must be of another period, as long as the one by which the moves were chosen.
pub fn confirmed(
    moves: Vec<HotMove>,
    counts: &PageAccessCounts,
    rules: &HotPageRules,
) -> Vec<HotMove> {
    let chooser = MoveEvaluator::new(rules, counts);
    let mut doubt = Evidence::default();
    let mut paying = Vec::with_capacity(moves.len());
    for each in moves {
        let again_ns = chooser.saved_ns(&each, counts, rules.misses_per_count);
        doubt.add(&each, again_ns);
        let mean_ns = (i128::from(each.saved_ns) + again_ns.unwrap_or(0)) / 2;
        if mean_ns > i128::from(each.cost_ns) {
            paying.push(HotMove { saved_ns: saturating_u64(mean_ns.unsigned_abs()), ..each });
        }
    }
    if doubt.confirms() { paying } else { Vec::new() }
}

/// The evidence for and against the moves.
#[derive(Default)]
struct Evidence {
    moves: usize,
    cost_ns: i128,
    /// The number of folios that were counted again, their promised saving, and their new saving.
    recounted: usize,
    promised_ns: i128,
    saved_ns: i128,
}

impl Evidence {
    /// Adds a move, and its saving by the second counts if its folio was counted again.
    fn add(&mut self, each: &HotMove, again_ns: Option<i128>) {
        self.moves += 1;
        self.cost_ns += i128::from(each.cost_ns);
        if let Some(saved_ns) = again_ns {
            self.recounted += 1;
            self.promised_ns += i128::from(each.saved_ns);
            self.saved_ns = self.saved_ns.saturating_add(saved_ns);
        }
    }

    fn confirms(&self) -> bool {
        self.recounted >= self.moves / RECOUNTED_ONE_IN
            && self.saved_ns >= self.promised_ns / 2
            && self.saved_ns > self.cost_ns
    }
}

impl MoveEvaluator<'_> {
    /// Returns the time that the misses of a folio save at its destination, in nanoseconds,
    /// negative if they cost more; `None` if there are none.
    fn saved_ns(
        &self,
        each: &HotMove,
        counts: &PageAccessCounts,
        misses_per_count: u64,
    ) -> Option<i128> {
        let mut misses = counts.folio_accesses(each.range(self.page_bytes));
        misses.iter_mut().for_each(|miss| miss.1 = miss.1.saturating_mul(misses_per_count));
        let cost = |node| self.misses_cost(&misses, node).cast_signed();
        (!misses.is_empty()).then(|| (cost(each.from) - cost(each.to)) / 10)
    }
}
