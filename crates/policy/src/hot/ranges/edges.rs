//! Edges: a range ends between its owner's last sample and the first one of others.
//!
//! Halving cuts at round addresses wherever owners change, and leaves parts with few samples beside
//! the range that they belong to. So each end of a range is moved in or out to its owner's last
//! sample before those of others, and from there to the roundest address of the gap between both:
//! mappings, arenas and huge pages begin at round addresses. Where the owner changes elsewhere in
//! the gap, a third of it gets the wrong owner in the mean. To leave the gap where it is would
//! leave half of it with the wrong one.

use nodeward_model::{NodeId, Range};

use super::super::evidence::SampleWindow;
use super::super::samples::PageUse;
use super::halving::{Finding, Part};
use super::memory::roundest;

/// An end is moved in if the owner has fewer than so many votes beyond it for each vote of others.
const OTHERS_WEIGH: i64 = 3;
/// A range reaches over a gap no longer than so many times the mean gap between its samples: that
/// is how long one gap is by chance in e^8 = 2,981. A longer one is nobody's.
const GAPS_MAX: u64 = 8;

/// A range, and the node that uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SoleUserRange {
    pub(super) range: Range,
    pub(super) owner: NodeId,
    /// The number of last periods by whose samples it was judged.
    pub(super) periods: usize,
}

/// Returns the ranges of a mapping that have an owner, with refined ends, in ascending order.
pub(super) fn owned_ranges(
    parts: &[Part],
    window: &SampleWindow<'_>,
    page_bytes: u64,
) -> Vec<SoleUserRange> {
    let refined = parts.iter().enumerate().filter_map(|(index, part)| {
        let Finding::Owned(owner) = part.finding else { return None };
        let room = Room::around(parts, index);
        let uses = window.within(room.view).latest(part.periods);
        let refiner = Refiner { owner, room: room.limits, uses: &uses, page_bytes };
        Some(SoleUserRange { range: refiner.refine(part.range), owner, periods: part.periods })
    });
    refined.fold(Vec::new(), join)
}

/// Adds a range to ascending ones. Two of one owner that meet become one; others do not overlap.
fn join(mut ranges: Vec<SoleUserRange>, mut next: SoleUserRange) -> Vec<SoleUserRange> {
    if let Some(last) = ranges.last_mut() {
        if last.owner == next.owner && next.range.start <= last.range.end {
            last.range.end = last.range.end.max(next.range.end);
            last.periods = last.periods.max(next.periods);
            return ranges;
        }
        next.range = Range::new(next.range.start.max(last.range.end), next.range.end);
    }
    if !next.range.is_empty() {
        ranges.push(next);
    }
    ranges
}

/// The memory around a part.
struct Room {
    /// The addresses up to which the range may reach: over parts of which nothing is known.
    limits: Range,
    /// The same and the next parts that are known, whose samples limit it, too.
    view: Range,
}

impl Room {
    fn around(parts: &[Part], index: usize) -> Self {
        let is_known =
            |part: &&Part| !matches!(part.finding, Finding::TooFewSamples | Finding::Shared);
        let (first, last) = (parts[0].range.start, parts[parts.len() - 1].range.end);
        let before = parts[..index].iter().rev().find(is_known).map(|part| part.range);
        let after = parts[index + 1..].iter().find(is_known).map(|part| part.range);
        let around = |before: Option<u64>, after: Option<u64>| {
            Range::new(before.unwrap_or(first), after.unwrap_or(last))
        };
        Self {
            limits: around(before.map(|it| it.end), after.map(|it| it.start)),
            view: around(before.map(|it| it.start), after.map(|it| it.end)),
        }
    }
}

/// The data by which the ends of a range move.
struct Refiner<'a> {
    owner: NodeId,
    room: Range,
    /// The uses of the memory around, in ascending order.
    uses: &'a [&'a PageUse],
    page_bytes: u64,
}

impl Refiner<'_> {
    /// Moves both ends of a range.
    fn refine(&self, range: Range) -> Range {
        let first = self.uses.partition_point(|one| one.page < range.start);
        let end = self.uses.partition_point(|one| one.page < range.end);
        let middle = first + (end - first) / 2;
        let ends = (self.last_own((first..middle).rev()), self.last_own(middle..end));
        let (Some(low), Some(high)) = ends else { return range };
        let gap = (self.uses[high].page - self.uses[low].page) / (high - low).max(1) as u64;
        let reach = gap * GAPS_MAX;
        let low = self.grow(low, (0..low).rev(), reach);
        let high = self.grow(high, high + 1..self.uses.len(), reach);
        Range::new(self.start(low, reach), self.end(high, reach))
    }

    /// Returns the last use by the owner, of uses from the middle of a range to its end, before
    /// those of others prevail.
    fn last_own(&self, outwards: impl Iterator<Item = usize>) -> Option<usize> {
        let (mut sum, mut best, mut last) = (0, 0, None);
        for at in outwards {
            let is_own = self.uses[at].user == self.owner;
            sum += if is_own { 1 } else { -OTHERS_WEIGH };
            if is_own && sum >= best {
                (best, last) = (sum, Some(at));
            }
        }
        last
    }

    /// Returns the last one of the uses by the owner that follow each other beyond an index.
    fn grow(&self, from: usize, beyond: impl Iterator<Item = usize>, reach: u64) -> usize {
        let mut last = from;
        for at in beyond {
            let one = self.uses[at];
            let is_near = one.page.abs_diff(self.uses[last].page) <= reach;
            let is_in_room = (self.room.start..self.room.end).contains(&one.page);
            if one.user != self.owner || !is_near || !is_in_room {
                break;
            }
            last = at;
        }
        last
    }

    /// Returns the start of a range whose first use has this index.
    fn start(&self, index: usize, reach: u64) -> u64 {
        let low = self.uses[index].page;
        let before = index.checked_sub(1).map(|at| self.uses[at]);
        let start = match before.filter(|one| one.user != self.owner) {
            Some(one) => roundest((one.page + self.page_bytes).min(low), low),
            None => self.room.start.min(low),
        };
        if low - start <= reach { start } else { low }
    }

    /// Returns the end of a range whose last use has this index.
    fn end(&self, index: usize, reach: u64) -> u64 {
        let past = self.uses[index].page + self.page_bytes;
        let end = match self.uses.get(index + 1).filter(|one| one.user != self.owner) {
            Some(one) => roundest(past, one.page.max(past)),
            None => self.room.end.max(past),
        };
        if end - past <= reach { end } else { past }
    }
}
