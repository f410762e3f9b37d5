//! Chooses a node for each range of memory that one node uses, from samples of which node used
//! which page.
//!
//! [`plan_moves`](super::plan_moves) judges each page by its own accesses. It needs counts of
//! nearly every page. A timer gives some hundred to some thousand samples in a period, of memory
//! that has millions of pages, so most pages have none. But threads often use contiguous memory of
//! their own, and then few samples tell about all pages between them.
//!
//! 1. **Halving** (`halving`). Each mapping is halved, and halves are halved again, as a decision
//!    tree or a k-d tree divides space: a range is one node's if nearly all its samples are by that
//!    node. Cuts are at round addresses wherever samples are, because cuts that fit samples best
//!    find ranges in any noise. A range is taken whole unless its halves gain more.
//! 2. **Two sets of samples** (`evidence`), from different periods. A range is a node's only if
//!    both sets say so: by one alone, a tile that one thread works at for a while is its own. The
//!    samples of a range must also differ from those of the memory around it, or memory whose pages
//!    belong to two nodes at random has parts that are one node's by luck. Together, the ranges
//!    that one set chooses must save half of what it promises by the other set, as with
//!    [`confirmed`](super::confirmed), or none is believed.
//! 3. **Edges** (`edges`). A range ends between its owner's last sample and the first of others.
//! 4. **Payback**, as for pages (Menyhart 2004): a range moves if its threads save more time within
//!    the horizon than the move of its pages costs. The part of its pages that are elsewhere, and
//!    the time, are those of its samples (`time_rules`).
//!
//! The fewest last periods are used that have enough samples of a range. Memory whose user changed
//! is judged by its new user as soon as two periods have enough samples of it; rarely sampled
//! memory is judged by up to 16 periods.
//!
//! Memory that several nodes use stays where it is.

use std::cmp::Reverse;

use nodeward_model::{NodeId, Range};

use super::costs::saturating_u64;
use super::evidence::SampleWindow;
use super::page_room::PageRoom;
use super::promises::Promises;
use super::samples::SampleHistory;
use super::time_rules::{SAVED_NS_MIN, TimeRules};
use edges::{SoleUserRange, owned_ranges};
use halving::{Finding, Halving, Part, VOTES_MIN};
use places::Places;

pub use memory::MappedRange;

mod edges;
mod halving;
mod memory;
mod places;

/// A range that is worth its move, and the destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeMove {
    /// The addresses of the range, page-aligned and within one mapping.
    pub range: Range,
    /// The base pages in it that are elsewhere, as far as samples tell.
    pub pages: u64,
    /// The destination.
    pub to: NodeId,
    /// The time that its threads save within the horizon, in nanoseconds.
    pub saved_ns: u64,
    /// The cost of the move, in nanoseconds; less than is saved.
    pub cost_ns: u64,
}

impl RangeMove {
    /// Returns the net time saved, in nanoseconds.
    pub fn gain_ns(&self) -> u64 {
        self.saved_ns - self.cost_ns
    }
}

/// Pages that stay, by reason; populated ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemainingRanges {
    /// In memory whose sampled pages are where they are used.
    pub here_already: u64,
    /// In memory that several nodes use.
    pub shared: u64,
    /// In memory that has too few samples.
    pub too_few_samples: u64,
    /// In memory whose move would cost as much as it saves, or that saves next to nothing.
    pub does_not_pay: u64,
    /// In ranges that one set of samples chose and the other did not confirm.
    pub not_confirmed: u64,
    /// In ranges beyond the page limit, because others gain more.
    pub beyond_cap: u64,
}

/// The result of the choice. Every populated page of the mappings is in a range of `moves`, or
/// counted in `remaining`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangePlan {
    /// The ranges to move, in descending order of their gain; equal ones in order of their address.
    pub moves: Vec<RangeMove>,
    /// The pages that stay.
    pub remaining: RemainingRanges,
}

/// Chooses for all memory of a process. `memory` are its mappings, in ascending order and without
/// overlap. Nothing moves before the history has two periods.
pub fn plan_ranges(
    history: &SampleHistory,
    memory: &[MappedRange],
    rules: &TimeRules,
) -> RangePlan {
    let planner =
        Planner { window: SampleWindow::all(history), page_bytes: history.page_bytes(), rules };
    planner.plan(memory)
}

/// A range that has an owner.
struct RangeCandidate<'a> {
    mapping: &'a MappedRange,
    owned: SoleUserRange,
    /// The pages that may be in it.
    pages: u64,
    /// The places of sampled pages.
    places: Places,
}

/// The input of a plan.
struct Planner<'a> {
    window: SampleWindow<'a>,
    page_bytes: u64,
    rules: &'a TimeRules,
}

impl Planner<'_> {
    fn plan(&self, memory: &[MappedRange]) -> RangePlan {
        let mut plan = RangePlan::default();
        let (candidates, promises) = self.candidates(memory, &mut plan.remaining);
        let mut paying = Vec::new();
        for candidate in candidates {
            match self.range_move(&candidate) {
                _ if !promises.are_kept() => plan.remaining.not_confirmed += candidate.pages,
                None => plan.remaining.does_not_pay += candidate.pages,
                Some(each) => paying.push((each, candidate)),
            }
        }
        paying.sort_unstable_by_key(|(each, _)| (Reverse(each.gain_ns()), each.range.start));
        let mut room = self.rules.room.clone();
        for (whole, candidate) in paying {
            let fits = self.cut(whole, &candidate, &mut room);
            let pages = fits.as_ref().map_or(0, |each| self.pages_in(&candidate, each.range));
            plan.remaining.beyond_cap += candidate.pages - pages;
            plan.moves.extend(fits);
        }
        plan
    }

    /// Returns the ranges that have an owner, and counts the pages of all other memory.
    fn candidates<'b>(
        &self,
        memory: &'b [MappedRange],
        remaining: &mut RemainingRanges,
    ) -> (Vec<RangeCandidate<'b>>, Promises) {
        let mut promises = Promises::default();
        let of_process = self.window.evidence(VOTES_MIN).votes_by_user();
        let mut candidates = Vec::new();
        for mapping in memory {
            let halving = Halving {
                mapping,
                page_bytes: self.page_bytes,
                rules: self.rules,
                promises: &mut promises,
            };
            let window = self.window.within(mapping.range);
            let parts = halving.parts(&window, &of_process);
            let owned = owned_ranges(&parts, &window, self.page_bytes);
            let pages_in = |range| mapping.pages_in(range, self.page_bytes);
            for part in &parts {
                let covered = owned.iter().filter_map(|it| it.range.intersection(part.range));
                let pages = pages_in(part.range) - covered.map(pages_in).sum::<u64>();
                *remaining.of(part.finding) += pages;
            }
            candidates.extend(owned.into_iter().map(|owned| RangeCandidate {
                mapping,
                owned,
                pages: pages_in(owned.range),
                places: places(&parts, owned.range, pages_in),
            }));
        }
        (candidates, promises)
    }

    /// Returns the move of a range, if it pays. Its ends were moved, so both sets are asked again.
    fn range_move(&self, candidate: &RangeCandidate<'_>) -> Option<RangeMove> {
        let SoleUserRange { range, owner, periods } = candidate.owned;
        let evidence = self.window.within(range).evidence_of(periods);
        if !evidence.has_votes(VOTES_MIN) || !evidence.is_nearly_all_by(owner) {
            return None;
        }
        let to = self.rules.nearest(owner)?;
        let saved_ns = evidence.saved_ns(owner, to, self.rules).max(0).unsigned_abs();
        let each = RangeMove {
            range,
            pages: candidate.places.away(to),
            cost_ns: candidate.places.cost_ns(to, self.page_bytes, self.rules),
            saved_ns: saturating_u64(saved_ns),
            to,
        };
        let is_worth_it = each.pages > 0 && each.saved_ns > each.cost_ns.max(SAVED_NS_MIN);
        is_worth_it.then_some(each)
    }

    fn pages_in(&self, candidate: &RangeCandidate<'_>, range: Range) -> u64 {
        candidate.mapping.pages_in(range, self.page_bytes)
    }

    /// Returns the part of a move at its start that there is room for, if it is worth it, and takes
    /// that room.
    fn cut(
        &self,
        whole: RangeMove,
        candidate: &RangeCandidate<'_>,
        rooms: &mut PageRoom,
    ) -> Option<RangeMove> {
        if rooms.take(whole.to, whole.pages) {
            return Some(whole);
        }
        let room = rooms.left(whole.to);
        let part = |number: u64| {
            saturating_u64(u128::from(number) * u128::from(room) / u128::from(whole.pages))
        };
        let pages = part(candidate.pages);
        let range = candidate.mapping.first_pages(whole.range, pages, self.page_bytes);
        let saved_ns = part(whole.saved_ns);
        let cost_ns = part(whole.cost_ns);
        let is_worth_it = saved_ns > cost_ns.max(SAVED_NS_MIN) && !range.is_empty();
        let fits = is_worth_it && rooms.take(whole.to, room);
        fits.then_some(RangeMove { range, pages: room, saved_ns, cost_ns, ..whole })
    }
}

/// Returns where the pages of a range are that overlaps some of these parts.
fn places(parts: &[Part], range: Range, pages_in: impl Fn(Range) -> u64) -> Places {
    let mut places = Places::default();
    for part in parts {
        if let Some(both) = range.intersection(part.range) {
            places.add(&part.places.part(pages_in(both), pages_in(part.range)));
        }
    }
    places
}

impl RemainingRanges {
    /// Returns whether most of these pages are in memory that several nodes use, as far as samples
    /// tell: single pages of it may still be one node's.
    pub fn are_mostly_mixed(&self) -> bool {
        let mixed = self.shared.saturating_add(self.not_confirmed);
        let others = [self.here_already, self.too_few_samples, self.does_not_pay, self.beyond_cap];
        mixed > others.into_iter().fold(0, u64::saturating_add)
    }

    fn of(&mut self, finding: Finding) -> &mut u64 {
        match finding {
            // What the refined range left out.
            Finding::Owned(_) | Finding::TooFewSamples => &mut self.too_few_samples,
            Finding::HereAlready => &mut self.here_already,
            Finding::Shared => &mut self.shared,
            Finding::DoesNotPay => &mut self.does_not_pay,
        }
    }
}

#[cfg(test)]
mod tests;
