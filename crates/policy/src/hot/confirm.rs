//! Whether moves that some counts speak for also pay with others.
//!
//! The highest of some counts is high by chance, too: where all nodes use a page alike, one of them
//! seems to use it most in any short time. Counts that moves were not chosen by are free of that.
//! Of pages that are used alike they confirm nothing of what the first ones promised in the mean,
//! and then nothing is believed.

use super::{Chooser, Counts, HotMove, Rules, narrow};

/// So large a part of the moves must be of folios that were counted again, as one part of so many.
const AGAIN_PARTS: usize = 4;

/// Those of the moves that pay by both counts together, with what they save in the mean of both.
/// None at all if the folios that were counted again would save less than half of what they
/// promised, or all moves together less than they cost.
///
/// The counts must be those of another time, as long as that by which the moves were chosen.
pub fn confirmed(moves: Vec<HotMove>, counts: &Counts, rules: &Rules) -> Vec<HotMove> {
    let chooser = Chooser::new(rules, counts);
    let mut doubt = Doubt::default();
    let mut paying = Vec::with_capacity(moves.len());
    for each in moves {
        let again_ns = chooser.saved_ns(&each, counts, rules.misses_per_count);
        doubt.weigh(&each, again_ns);
        let mean_ns = (i128::from(each.saved_ns) + again_ns.unwrap_or(0)) / 2;
        if mean_ns > i128::from(each.cost_ns) {
            paying.push(HotMove { saved_ns: narrow(mean_ns.unsigned_abs()), ..each });
        }
    }
    if doubt.is_gone() { paying } else { Vec::new() }
}

/// What speaks for the moves and against them.
#[derive(Default)]
struct Doubt {
    moves: usize,
    cost_ns: i128,
    /// How many folios were counted again, what they promised, and what they came to.
    again: usize,
    promised_ns: i128,
    saved_ns: i128,
}

impl Doubt {
    /// A move, and what it saves by the other counts if its folio was counted again.
    fn weigh(&mut self, each: &HotMove, again_ns: Option<i128>) {
        self.moves += 1;
        self.cost_ns += i128::from(each.cost_ns);
        if let Some(saved_ns) = again_ns {
            self.again += 1;
            self.promised_ns += i128::from(each.saved_ns);
            self.saved_ns = self.saved_ns.saturating_add(saved_ns);
        }
    }

    fn is_gone(&self) -> bool {
        self.again >= self.moves / AGAIN_PARTS
            && self.saved_ns >= self.promised_ns / 2
            && self.saved_ns > self.cost_ns
    }
}

impl Chooser<'_> {
    /// What the misses of a folio cost less where it goes, in nanoseconds, negative if more; `None`
    /// if there are none.
    fn saved_ns(&self, each: &HotMove, counts: &Counts, misses_per_count: u64) -> Option<i128> {
        let mut misses = counts.of_folio(each.range(self.page_bytes));
        misses.iter_mut().for_each(|miss| miss.1 = miss.1.saturating_mul(misses_per_count));
        let cost = |node| self.misses_cost(&misses, node).cast_signed();
        (!misses.is_empty()).then(|| (cost(each.from) - cost(each.to)) / 10)
    }
}
