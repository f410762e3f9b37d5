//! Placement by sampled time: a timer tells at which pages the threads of a process spend their
//! time (`policy::hot::ranges`). Most pages have no sample, so whole ranges are placed, and single
//! pages only where two periods agree.

use nodeward_machine::{Machine, Result};
use nodeward_model::PageSet;
use nodeward_mover::{TimePlan, plan_by_time, sample_period};
use nodeward_policy::hot::ranges::RangeMove;
use nodeward_policy::hot::{PageAccessCounts, PeriodTimes, SampleHistory};

use super::range_order::{ChosenMemory, RangeOrder, SpreadMemory};

/// Length of a period, in nanoseconds: the first value at first; twice as long after each period in
/// which nothing was chosen, up to the second value. A change is seen after two periods.
pub const PERIOD_NS: [u64; 2] = [500_000_000, 16_000_000_000];
/// A range may hold more pages that are away than its samples tell, by one part in this number.
const UNSEEN_PART: u64 = 8;

/// The samples of a process in the last periods.
#[derive(Debug)]
pub struct SampledTime {
    history: SampleHistory,
    /// True if the last period found that several nodes use most of the memory.
    is_mixed: bool,
}

impl SampledTime {
    /// Returns no samples, of pages of this size.
    pub fn new(page_bytes: u64) -> Self {
        Self { history: SampleHistory::new(page_bytes), is_mixed: false }
    }

    /// Adds a period, and returns the memory that it and those before say is worth its move.
    ///
    /// # Errors
    /// If the process is gone or cannot be read.
    pub fn place(
        &mut self,
        machine: &dyn Machine,
        spread: &SpreadMemory,
        ticks: &PageAccessCounts,
        times: PeriodTimes,
    ) -> Result<ChosenMemory> {
        self.history.push(sample_period(&*spread.process, ticks, times)?);
        let rules = spread.time_rules();
        let TimePlan { ranges, folios } =
            plan_by_time(machine, (&*spread.process, spread.users), &self.history, &rules)?;
        self.is_mixed = ranges.remaining.are_mostly_mixed();
        let page_bytes = machine.page_bytes();
        let ranges = ranges.moves.iter().map(|each| range_order(each, spread, page_bytes));
        Ok(ChosenMemory { ranges: ranges.collect(), folios })
    }

    /// Returns the samples of the last periods.
    pub fn history(&self) -> &SampleHistory {
        &self.history
    }

    /// Returns whether samples tell that several nodes use most of the memory, but not which page
    /// belongs to which node.
    pub fn is_mixed(&self) -> bool {
        self.is_mixed
    }

    /// Forgets the samples of memory that is moved.
    pub fn forget(&mut self, orders: &[RangeOrder]) {
        let mut pages = PageSet::new(self.history.page_bytes());
        let ranges = orders.iter().flat_map(|order| &order.ranges);
        ranges.for_each(|range| pages.insert_range(*range));
        self.history.forget(&pages);
    }
}

fn range_order(each: &RangeMove, spread: &SpreadMemory, page_bytes: u64) -> RangeOrder {
    let pages = each.pages.saturating_add(each.pages / UNSEEN_PART);
    RangeOrder {
        ranges: vec![each.range],
        pages: pages.min(each.range.bytes() / page_bytes),
        from: spread.nodes.iter().filter(|&node| node != each.to).collect(),
        to: each.to,
        saved_ns: each.saved_ns,
        cost_ns: each.cost_ns,
    }
}
