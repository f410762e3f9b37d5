//! Halving: which parts of a mapping one node uses nearly alone.

use std::collections::BTreeMap;

use nodeward_model::{NodeId, Range};

use super::super::evidence::{OTHERS_ONE_IN, SampleEvidence, SampleWindow, UseSums, Votes};
use super::super::promises::Promises;
use super::super::time_rules::TimeRules;
use super::memory::{MappedRange, roundest};
use super::places::Places;

/// Votes in each set without which nothing is decided. If two nodes use all pages equally, eight
/// votes are by one node once in 128 times, and those of both sets by the same once in 32,768.
pub(super) const VOTES_MIN: u64 = 8;
/// Other nodes must have so many times fewer votes than they would have if the range was like the
/// memory around it.
const OTHERS_FEWER: u64 = 4;
/// A range is no smaller, in pages: below are single pages.
const RANGE_PAGES_MIN: u64 = 16;

const WHOLE_PPM: u64 = 1_000_000;

/// The finding about a part of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// One node uses it, and its pages are worth moving.
    Owned(NodeId),
    /// All sampled pages, or those of its one user, are where they belong.
    HereAlready,
    /// The part has no single user.
    Shared,
    /// The part has too few samples.
    TooFewSamples,
    /// One node uses it, and moving its pages would cost more than it saves.
    DoesNotPay,
}

/// A part of a mapping. The parts of a mapping leave nothing out and do not overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) range: Range,
    pub(super) finding: Finding,
    /// The places of its pages.
    pub(super) places: Places,
    /// The number of last periods by whose samples it was judged.
    pub(super) periods: usize,
}

/// The halving of one mapping.
pub(super) struct Halving<'a> {
    pub(super) mapping: &'a MappedRange,
    pub(super) page_bytes: u64,
    pub(super) rules: &'a TimeRules,
    pub(super) promises: &'a mut Promises,
}

/// The samples of the memory around a range.
///
/// A range has samples of one node only also by luck, if that node has most samples everywhere. So
/// its samples must differ from those of the memory beside it, be it the other half of the memory
/// that it is a half of, or that and more, up to all memory of the process.
pub(super) struct Surroundings<'a> {
    /// The votes of the other half, or of the other mappings.
    beside: Votes,
    /// The samples around both halves.
    outside: Option<&'a Self>,
    /// A range around the part was promised already.
    is_promised: bool,
}

/// The parts of a range, and what their moves gain together, in nanoseconds.
struct Choice {
    parts: Vec<Part>,
    gain_ns: i128,
}

impl Halving<'_> {
    /// Returns the parts of the mapping, in ascending order. `of_process` are the votes of all
    /// memory.
    pub(super) fn parts(mut self, window: &SampleWindow<'_>, of_process: &Votes) -> Vec<Part> {
        let mut beside = of_process.clone();
        for (user, own) in window.evidence(VOTES_MIN).votes_by_user() {
            let votes = beside.entry(user).or_default();
            *votes = votes.saturating_sub(own);
        }
        let around = Surroundings { beside, outside: None, is_promised: false };
        self.choose(self.mapping.range, window, &around).parts
    }

    /// Takes the range as a whole, or its halves if they gain more.
    fn choose(
        &mut self,
        range: Range,
        window: &SampleWindow<'_>,
        around: &Surroundings<'_>,
    ) -> Choice {
        let usual = around.shares_ppm();
        let evidence = window.evidence(votes_wanted(&usual));
        let leaf = |finding| Choice::of(range, finding, self.places(range, &evidence), &evidence);
        let has_votes = evidence.has_votes(VOTES_MIN);
        let Some(owner) = evidence.choosing.most_frequent_user().filter(|_| has_votes) else {
            return leaf(Finding::TooFewSamples);
        };
        if evidence.is_all_local() {
            return leaf(Finding::HereAlready);
        }
        let leaf = leaf(Finding::Shared);
        let usual_ppm = usual.get(&owner).copied().unwrap_or(0);
        let is_chosen = is_owner(owner, &evidence.choosing, usual_ppm);
        let is_confirmed = is_chosen && is_owner(owner, &evidence.confirming, usual_ppm);
        let is_promised = around.is_promised || (is_chosen && self.promise(owner, &evidence));
        let halves = self.halves(range, window, around, is_promised);
        match self.rules.nearest(owner).filter(|_| is_confirmed) {
            Some(to) => self.owned(halves.unwrap_or(leaf), &evidence, owner, to),
            None => halves.filter(Choice::says_anything).unwrap_or(leaf),
        }
    }

    /// Chooses for both halves of a range; `None` if it is too small.
    fn halves(
        &mut self,
        range: Range,
        window: &SampleWindow<'_>,
        around: &Surroundings<'_>,
        is_promised: bool,
    ) -> Option<Choice> {
        let [left, right] = halves(range, self.page_bytes)?;
        let windows = [left, right].map(|half| window.within(half));
        let [of_left, of_right] =
            windows.each_ref().map(|window| window.evidence(VOTES_MIN).votes_by_user());
        let around = |beside| Surroundings { beside, outside: Some(around), is_promised };
        let left = self.choose(left, &windows[0], &around(of_right));
        let right = self.choose(right, &windows[1], &around(of_left));
        Some(Choice::join([left, right]))
    }

    /// Notes what the choosing set promises; returns whether that is anything.
    fn promise(&mut self, owner: NodeId, evidence: &SampleEvidence) -> bool {
        let Some(to) = self.rules.nearest(owner) else { return false };
        let saved = |set: &UseSums| set.saved_ns(owner, to, self.rules);
        self.promises.add(saved(&evidence.choosing), saved(&evidence.confirming))
    }

    /// Takes a range with an owner as a whole, unless its halves gain more.
    fn owned(
        &self,
        halves: Choice,
        evidence: &SampleEvidence,
        owner: NodeId,
        to: NodeId,
    ) -> Choice {
        let places = halves.places();
        let cost_ns = i128::from(places.cost_ns(to, self.page_bytes, self.rules));
        let gain_ns = evidence.saved_ns(owner, to, self.rules) - cost_ns;
        if halves.gain_ns > gain_ns.max(0) {
            return halves;
        }
        let finding = match (gain_ns > 0, places.away(to)) {
            (true, _) => Finding::Owned(owner),
            (false, 0) => Finding::HereAlready,
            (false, _) => Finding::DoesNotPay,
        };
        let whole = Choice::of(halves.range(), finding, places, evidence);
        Choice { gain_ns: gain_ns.max(0), ..whole }
    }

    fn places(&self, range: Range, evidence: &SampleEvidence) -> Places {
        Places::estimate(evidence, self.mapping.pages_in(range, self.page_bytes))
    }
}

impl Surroundings<'_> {
    /// Returns the largest part of votes, in ppm, that each node has in the memory beside, in that
    /// and the memory around both, and so on. Left out is where there are few votes, and where a
    /// node has nearly all of them: no range of that can be mistaken for its own.
    fn shares_ppm(&self) -> BTreeMap<NodeId, u64> {
        let (mut sums, mut shares) = (Votes::new(), BTreeMap::new());
        let mut next = Some(self);
        while let Some(around) = next {
            for (&user, votes) in &around.beside {
                *sums.entry(user).or_default() += votes;
            }
            let all = sums.values().sum::<u64>();
            for (&user, &votes) in sums.iter().filter(|_| all >= VOTES_MIN) {
                if (all - votes) * OTHERS_ONE_IN > all {
                    let share: &mut u64 = shares.entry(user).or_default();
                    *share = (votes * WHOLE_PPM / all).max(*share);
                }
            }
            next = around.outside;
        }
        shares
    }
}

/// Returns the number of votes by which any node could be told from the memory around.
fn votes_wanted(usual: &BTreeMap<NodeId, u64>) -> u64 {
    let others_ppm = WHOLE_PPM - usual.values().copied().max().unwrap_or(0);
    (OTHERS_FEWER * WHOLE_PPM).div_ceil(others_ppm).max(VOTES_MIN)
}

/// Returns whether nearly all votes of a set are by one node, and more than that node has in the
/// memory around.
fn is_owner(owner: NodeId, set: &UseSums, usual_ppm: u64) -> bool {
    let at_least = (set.votes_of_others(owner) + 1) * OTHERS_FEWER * WHOLE_PPM;
    set.is_nearly_all_by(owner) && set.votes() * (WHOLE_PPM - usual_ppm) >= at_least
}

impl Choice {
    /// Returns a range that is not divided and gains nothing.
    fn of(range: Range, finding: Finding, places: Places, evidence: &SampleEvidence) -> Self {
        let periods = evidence.periods;
        Self { parts: vec![Part { range, finding, places, periods }], gain_ns: 0 }
    }

    /// Joins the choices of two halves.
    fn join([mut left, right]: [Self; 2]) -> Self {
        for part in right.parts {
            match left.parts.last_mut() {
                Some(last) if last.finding == part.finding => {
                    last.range.end = part.range.end;
                    last.places.add(&part.places);
                    last.periods = last.periods.max(part.periods);
                }
                _ => left.parts.push(part),
            }
        }
        Self { parts: left.parts, gain_ns: left.gain_ns + right.gain_ns }
    }

    /// Returns whether there were enough samples for any part.
    fn says_anything(&self) -> bool {
        self.parts.iter().any(|part| part.finding != Finding::TooFewSamples)
    }

    /// Returns all of the range.
    fn range(&self) -> Range {
        let start = self.parts.iter().map(|part| part.range.start).min().unwrap_or(0);
        let end = self.parts.iter().map(|part| part.range.end).max().unwrap_or(0);
        Range::new(start, end)
    }

    fn places(&self) -> Places {
        let mut places = Places::default();
        self.parts.iter().for_each(|part| places.add(&part.places));
        places
    }
}

/// Splits a range at the roundest address of its middle half, where allocators and huge pages
/// begin; `None` if it is too small.
fn halves(range: Range, page_bytes: u64) -> Option<[Range; 2]> {
    let bytes = range.bytes();
    if bytes < 2 * RANGE_PAGES_MIN * page_bytes {
        return None;
    }
    let (first, last) = (range.start + bytes / 4, range.end - bytes / 4);
    let middle = roundest(first, last);
    Some([Range::new(range.start, middle), Range::new(middle, range.end)])
}
