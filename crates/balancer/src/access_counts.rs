//! Access counts: how often each node uses each page of spread processes and of segments whose
//! users are apart, on machines that count it, and which pages move for that.
//!
//! The counts of one period choose pages (`policy::hot::choose`), those of the next period confirm
//! them (`confirmed`). So pages that all nodes use alike do not move. A page that was moved stays
//! on its node for at least a minute, later for two, and so on, so that no page moves to and fro
//! for ever.

use std::collections::BTreeMap;

use nodeward_machine::{Machine, Result};
use nodeward_model::{Access, NodeId, PageSet, Range, SegmentId};
use nodeward_mover::MemoryUsers;
use nodeward_policy::damping::Retry;
use nodeward_policy::hot::{
    HotMove, PageAccessCounts, PeriodTimes, SampleHistory, confirmed, plan_moves,
};
use nodeward_policy::placement::EntityId;

use super::range_order::{ChosenMemory, PageMove, RangeOrder, SpreadMemory, page_moves};
use super::sampled_time::{self, SampledTime};

/// Length of a counting period, in nanoseconds: the first value at first; twice as long after each
/// period in which no page was chosen, up to the second value.
const PERIOD_NS: [u64; 2] = [2_000_000_000, 64_000_000_000];
/// Maximum number of pairs of a page and a node in the counts of a period, some 50 MB. Accesses to
/// further pages are not counted.
const PAIRS_MAX: usize = 1 << 20;
/// Length of a rest, in periods, and its maximum in nanoseconds. A memory rests after a period in
/// which all its users use it alike: nobody is observed for it. Most segments are used so, and
/// their users are many.
const RESTS: u64 = 7;
const RESTS_NS_MAX: u64 = 64_000_000_000;
/// Periods before a process may rest: its threads may have no places of their own at first.
const PROCESS_PERIODS_MIN: u64 = 3;
/// Time for which a page stays on the node that it was moved to, in nanoseconds: at first and at
/// most.
const STAYS_NS: [u64; 2] = [60_000_000_000, 3_600_000_000_000];

/// Memory whose accesses are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counted {
    /// The memory of a process, counted by its addresses.
    Process(EntityId),
    /// A segment, counted by the addresses of its leader (`segment_pages`).
    Segment(SegmentId),
}

/// The counts of all memory whose pages may be placed one by one.
#[derive(Debug, Default)]
pub struct AccessCounts {
    memories: BTreeMap<Counted, MemoryCounts>,
}

/// The counts of one process's memory or of one segment.
#[derive(Debug)]
pub struct MemoryCounts {
    /// Time at which the period began, or begins after a rest, by the machine's clock.
    since_ns: u64,
    period: Retry,
    /// True if the last period chose pages, or if there was no period yet.
    is_placing: bool,
    /// The counts of the period before, with those before it that were not confirmed, and their
    /// length in nanoseconds.
    before: Option<(PageAccessCounts, u64)>,
    /// Periods since the counts began.
    periods: u64,
    now: PageAccessCounts,
    /// The time that a sample of now stands for, in nanoseconds; `None` if samples are counts.
    tick_ns: Option<u64>,
    sampled: SampledTime,
    placed: PageSet,
    stays: Retry,
}

impl AccessCounts {
    /// Keeps the counts of wanted memory, and drops the counts of all other memory.
    pub fn keep(&mut self, is_wanted: impl Fn(Counted) -> bool) {
        self.memories.retain(|&counted, _| is_wanted(counted));
    }

    /// Enters the time that a sample stands for from now on; `None` if samples are counts. Samples
    /// that stand for another time are dropped.
    pub fn set_tick(&mut self, tick_ns: Option<u64>) {
        for counts in self.memories.values_mut().filter(|counts| counts.tick_ns != tick_ns) {
            counts.tick_ns = tick_ns;
            counts.now = no_counts(counts.now.page_bytes());
        }
    }

    /// Adds accesses by CPUs of a node to the counts of a memory, if it has counts.
    pub fn add(&mut self, counted: Counted, access: Access, from: NodeId) {
        if let Some(count) = self.memories.get_mut(&counted) {
            count.now.add(access.address, from, access.count);
        }
    }

    /// Returns the counts of a memory; `None` if none have begun.
    pub fn get_mut(&mut self, counted: Counted) -> Option<&mut MemoryCounts> {
        self.memories.get_mut(&counted)
    }

    /// Returns the counts of a memory, and begins them if there are none.
    pub fn of(&mut self, counted: Counted, at_ns: u64, page_bytes: u64) -> &mut MemoryCounts {
        self.memories.entry(counted).or_insert_with(|| MemoryCounts::new(at_ns, page_bytes))
    }

    /// Lets memory be chosen again that was chosen and has not been moved.
    pub fn release(&mut self, counted: Counted, ranges: &[Range]) {
        if let Some(counts) = self.memories.get_mut(&counted) {
            ranges.iter().for_each(|range| counts.placed.remove_range(*range));
        }
    }

    /// Returns whether nobody is to be observed for a memory now.
    pub fn is_resting(&self, counted: Counted, at_ns: u64) -> bool {
        self.memories.get(&counted).is_some_and(|counts| counts.is_resting(at_ns))
    }

    /// The length of the shortest period of all, in nanoseconds; of a first one if none has begun.
    pub fn period_ns_min(&self, at_ns: u64) -> u64 {
        let observed = self.memories.values().filter(|counts| !counts.is_resting(at_ns));
        let periods = observed.map(|counts| counts.period.length_ns());
        periods.min().unwrap_or(sampled_time::PERIOD_NS[0])
    }

    /// Returns when the first of the periods ends in which pages are being placed: the last one
    /// chose some, or there was none. `None` if no memory is in such a period.
    pub fn placing_until_ns(&self) -> Option<u64> {
        let placing = self.memories.values().filter(|counts| counts.is_placing);
        placing.map(|counts| counts.period.ends_at_ns()).min()
    }

    /// Returns the number of pages of a process that were accessed in this period; `None` if there
    /// are no counts.
    pub fn pages(&self, entity: EntityId) -> Option<u64> {
        self.memories.get(&Counted::Process(entity)).map(|count| count.now.pages().count() as u64)
    }
}

impl MemoryCounts {
    fn new(at_ns: u64, page_bytes: u64) -> Self {
        let mut period = Retry::default();
        period.start(at_ns, false, sampled_time::PERIOD_NS);
        Self {
            since_ns: at_ns,
            period,
            is_placing: true,
            before: None,
            periods: 0,
            now: no_counts(page_bytes),
            tick_ns: None,
            sampled: SampledTime::new(page_bytes),
            placed: PageSet::new(page_bytes),
            stays: Retry::default(),
        }
    }

    /// Begins a new period without earlier counts, because all pages may be on other nodes soon.
    pub fn restart(&mut self, at_ns: u64, page_bytes: u64) {
        self.since_ns = at_ns;
        self.period.restart(at_ns);
        self.is_placing = true;
        self.before = None;
        self.periods = 0;
        self.now = no_counts(page_bytes);
        self.sampled = SampledTime::new(page_bytes);
    }

    /// Begins a new period like [`Self::restart`], because the counts go by other addresses from
    /// now on. The earlier addresses tell which pages were moved, so nothing more is placed while
    /// those pages have to stay.
    pub fn restart_elsewhere(&mut self, at_ns: u64, page_bytes: u64) {
        self.restart(at_ns, page_bytes);
        if !self.placed.is_empty() {
            self.since_ns = at_ns.max(self.stays.ends_at_ns());
            self.period.restart(self.since_ns);
        }
    }

    /// Begins a short period; the counts of earlier periods stay valid.
    pub fn begin_period(&mut self, at_ns: u64, page_bytes: u64) {
        self.since_ns = at_ns;
        self.period.start(at_ns, false, period_lengths(self.tick_ns));
        self.now = no_counts(page_bytes);
    }

    fn is_resting(&self, at_ns: u64) -> bool {
        at_ns < self.since_ns
    }

    /// Returns whether a period is over. The first one begins before it is known what samples stand
    /// for.
    pub fn is_due(&self, at_ns: u64) -> bool {
        let least_ns = period_lengths(self.tick_ns)[0];
        self.period.is_over(at_ns) && at_ns.saturating_sub(self.since_ns) >= least_ns
    }

    /// Ends a period, and returns the moves that it confirms: none after the first period, or if
    /// two periods disagree.
    ///
    /// # Errors
    /// If the process is gone or cannot be read.
    pub fn place(
        &mut self,
        machine: &dyn Machine,
        spread: &SpreadMemory,
        at_ns: u64,
    ) -> Result<Vec<PageMove>> {
        let page_bytes = machine.page_bytes();
        let ns = at_ns.saturating_sub(self.since_ns);
        let now = std::mem::replace(&mut self.now, no_counts(page_bytes));
        let chosen = match self.tick_ns {
            None => {
                let folios = self.by_counts(machine, spread, now, ns)?;
                ChosenMemory { folios, ..ChosenMemory::default() }
            }
            Some(tick_ns) => {
                let times = PeriodTimes { period_ns: ns, tick_ns };
                self.sampled.place(machine, spread, &now, times)?
            }
        };
        let orders = self.accept(chosen, at_ns, page_bytes);
        let was_in_vain = self.periods > 0 && orders.is_empty();
        self.is_placing = !was_in_vain;
        let may_rest = match spread.users {
            MemoryUsers::All => true,
            MemoryUsers::OneProcess => self.periods >= PROCESS_PERIODS_MIN,
        };
        let is_alike = was_in_vain && may_rest && self.sampled.is_mixed();
        let rest_ns = if is_alike { ns.saturating_mul(RESTS).min(RESTS_NS_MAX) } else { 0 };
        self.since_ns = at_ns.saturating_add(rest_ns);
        self.period.start(self.since_ns, was_in_vain, period_lengths(self.tick_ns));
        self.periods += 1;
        Ok(page_moves(&orders))
    }

    /// Returns the moves of single folios that the counts of the period before choose and those of
    /// now confirm.
    fn by_counts(
        &mut self,
        machine: &dyn Machine,
        spread: &SpreadMemory,
        now: PageAccessCounts,
        ns: u64,
    ) -> Result<Vec<HotMove>> {
        let before = self.before.take();
        let moves = match &before {
            Some((before, before_ns)) => {
                let places = spread.places(machine, before.pages())?;
                let place_of = |address| places.folio_at(address);
                let plan = plan_moves(before, place_of, &spread.rules(*before_ns));
                confirmed(plan.moves, &now, &spread.rules(ns))
            }
            None => Vec::new(),
        };
        self.before = Some(match before {
            // Threads that take turns at their own memory are seen at other pages each time.
            Some((mut counts, before_ns)) if moves.is_empty() && before_ns < 2 * ns => {
                counts.merge(&now);
                (counts, before_ns.saturating_add(ns))
            }
            _ => (now, ns),
        });
        Ok(moves)
    }

    /// Returns the samples of time; `None` if accesses are counted instead, or nothing is known.
    pub fn history(&self) -> Option<&SampleHistory> {
        self.tick_ns.map(|_| self.sampled.history())
    }

    /// Returns the samples of time, if they tell that several nodes use most of the memory.
    pub fn mixed_history(&self) -> Option<&SampleHistory> {
        self.history().filter(|_| self.sampled.is_mixed())
    }

    /// Orders the moves of chosen memory, without what was moved before and has not stayed on its
    /// node for long enough. Forgets the samples of the rest.
    pub fn accept(&mut self, chosen: ChosenMemory, at_ns: u64, page_bytes: u64) -> Vec<RangeOrder> {
        if self.stays.is_over(at_ns) {
            self.stays.start(at_ns, true, STAYS_NS);
            self.placed = PageSet::new(page_bytes);
        }
        let orders = chosen.without(&self.placed, page_bytes);
        let ranges = orders.iter().flat_map(|order| &order.ranges);
        ranges.for_each(|range| self.placed.insert_range(*range));
        self.sampled.forget(&orders);
        orders
    }
}

fn period_lengths(tick_ns: Option<u64>) -> [u64; 2] {
    if tick_ns.is_some() { sampled_time::PERIOD_NS } else { PERIOD_NS }
}

fn no_counts(page_bytes: u64) -> PageAccessCounts {
    PageAccessCounts::with_capacity(page_bytes, PAIRS_MAX)
}

#[cfg(test)]
mod tests {
    use nodeward_model::Nodemask;

    use super::*;

    /// Goal: memory is chosen once a minute, but for the part of a move that ended before it came
    /// there.
    #[test]
    fn what_was_not_moved_is_chosen_again() {
        const PAGE: u64 = 4096;
        let counted = Counted::Process(EntityId(7));
        let pages = |first: u64, end: u64| vec![Range::new(first * PAGE, end * PAGE)];
        let order = |ranges: Vec<Range>| RangeOrder {
            ranges,
            pages: 10,
            from: Nodemask::from_iter([NodeId(0)]),
            to: NodeId(1),
            saved_ns: 1000,
            cost_ns: 100,
        };
        let mut counts = AccessCounts::default();
        let chosen = |counts: &mut AccessCounts| {
            let of = counts.of(counted, 0, PAGE);
            let ranges = vec![order(pages(0, 10))];
            let chosen = ChosenMemory { ranges, ..ChosenMemory::default() };
            let orders = of.accept(chosen, 0, PAGE);
            orders.into_iter().flat_map(|order| order.ranges).collect::<Vec<_>>()
        };
        assert_eq!(chosen(&mut counts), pages(0, 10));
        assert_eq!(chosen(&mut counts), []);
        counts.release(counted, &pages(3, 10));
        assert_eq!(chosen(&mut counts), pages(3, 10));
        counts.release(Counted::Process(EntityId(8)), &pages(0, 10));
        assert_eq!(chosen(&mut counts), []);
    }
}
