//! Accesses that a timer sampled, by page and node, in periods.
//!
//! A timer that ticks on each CPU finds the thread there at some access. Such a sample is weighted
//! by time: it tells where a thread spends its time, and finds slow accesses more often than fast
//! ones. Memory of gigabytes has far more pages than a period has ticks, so most pages have no
//! sample.

use std::collections::VecDeque;

use nodeward_model::{NodeId, PageSet};

use super::counts::PageAccessCounts;

/// Periods in a history at most: eight to choose by and eight to confirm. Where a period has so few
/// samples that these are too few, the caller makes periods longer.
const PERIODS_MAX: usize = 16;
/// Uses in a history at most: 3 MiB at 48 bytes. The oldest periods are dropped first.
const USES_MAX: usize = 1 << 16;
/// Ticks of one page by its own node in a period that may pay for the pages beside it. Beyond
/// them a busy page would pay for the move of cold ones.
const TICKS_MAX: u64 = 4;
/// The time of a use is capped at two years, in nanoseconds, so that sums fit 128 bits.
const USE_NS_MAX: u64 = 1 << 56;

/// The use of a page by a node in one period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageUse {
    /// The address of the page.
    pub(super) page: u64,
    /// The node of the CPUs that used it.
    pub(super) user: NodeId,
    /// The node where the page was.
    pub(super) on: NodeId,
    /// The time that threads spent at it, in nanoseconds.
    pub(super) ns: u64,
    /// The part of that time that may pay for the pages beside it.
    pub(super) shared_ns: u64,
}

/// The duration of a period, and what its ticks stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodTimes {
    /// The length of the period, in nanoseconds.
    pub period_ns: u64,
    /// The time of its thread that one tick stands for, in nanoseconds: 10 ms at 100 Hz a CPU.
    pub tick_ns: u64,
}

/// The samples of a period.
#[derive(Clone, Debug)]
pub struct SamplePeriod {
    /// In ascending order of page and user, one for each pair.
    uses: Vec<PageUse>,
    ns: u64,
}

impl SamplePeriod {
    /// Returns a period in which each page was used for so many ticks. `node_of` maps the address
    /// of a page to the node where it is; pages that are on no node are left out.
    pub fn new(
        ticks: &PageAccessCounts,
        times: PeriodTimes,
        node_of: impl Fn(u64) -> Option<NodeId>,
    ) -> Self {
        let ns_of = |ticks: u64| ticks.saturating_mul(times.tick_ns).min(USE_NS_MAX);
        let page_use = |((page, user), ticks): ((u64, NodeId), u64)| {
            let on = node_of(page)?;
            Some(PageUse {
                page,
                user,
                on,
                ns: ns_of(ticks),
                shared_ns: ns_of(ticks.min(TICKS_MAX)),
            })
        };
        Self { uses: ticks.iter().filter_map(page_use).collect(), ns: times.period_ns.max(1) }
    }
}

/// The last periods of a process, in bounded memory.
#[derive(Clone, Debug)]
pub struct SampleHistory {
    page_bytes: u64,
    /// The latest one first.
    periods: VecDeque<SamplePeriod>,
}

impl SampleHistory {
    /// Returns an empty history of pages of this size (a power of two).
    pub fn new(page_bytes: u64) -> Self {
        Self { page_bytes, periods: VecDeque::new() }
    }

    /// Adds the latest period. One without uses only makes the one before it longer: what works in
    /// turns has rests, and these belong to neither set. The oldest periods are dropped when there
    /// are more than 16, or when all together have more than 65,536 uses.
    pub fn push(&mut self, period: SamplePeriod) {
        match self.periods.front_mut().filter(|_| period.uses.is_empty()) {
            Some(latest) => latest.ns = latest.ns.saturating_add(period.ns),
            None => self.periods.push_front(period),
        }
        while self.periods.len() > PERIODS_MAX || (self.periods.len() > 2 && self.is_full()) {
            self.periods.pop_back();
        }
    }

    /// Forgets all samples of pages that are elsewhere soon.
    pub fn forget(&mut self, pages: &PageSet) {
        for period in &mut self.periods {
            period.uses.retain(|one| !pages.contains(one.page));
        }
    }

    /// Iterates over the periods, the latest first: its uses in ascending order of page and user,
    /// and its duration in nanoseconds.
    pub(super) fn periods(&self) -> impl Iterator<Item = (&[PageUse], u64)> {
        self.periods.iter().map(|period| (&period.uses[..], period.ns))
    }

    /// Returns the size of a page in bytes.
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    fn is_full(&self) -> bool {
        self.periods.iter().map(|period| period.uses.len()).sum::<usize>() > USES_MAX
    }
}
