//! The tuner of Linux 6.7: `pcp_high` grows by the pages that had to be taken from the zone, and
//! decays.

use super::limits::{ListLimits, excess_when_short, free_count};
use super::tuner::Tuner;

/// Limit on the doublings of a batch (`CONFIG_PCP_BATCH_SCALE_MAX`): with more, the zone's lock
/// would be held too long.
const DOUBLINGS_MAX: u32 = 5;
/// The ticks without use after which a list is reset. The kernel empties lists of other nodes after
/// this time.
const IDLE_TICKS: u32 = 3;

/// Raises `pcp_high` with every refill, lowers it by an eighth with every tick. After one pass over
/// memory it has the size that the next pass needs.
///
/// Its known flaw, named by its author: a CPU that allocates much and frees little gets `high_max`,
/// though a list does nothing for it. [`super::DepthTuner`] does not have this flaw.
///
/// After `nr_pcp_alloc`, `nr_pcp_high`, `nr_pcp_free` and `decay_pcp_high` of mm/page_alloc.c, with
/// two differences. The kernel doubles batches of single pages only; here a refill is in base
/// pages, whatever the order. And a list that was not used for three ticks is reset at once, which
/// by decay alone would take half a minute from 128 MiB.
#[derive(Clone, Debug)]
pub struct EventsTuner {
    high: u32,
    /// The doublings of a batch from the zone (`alloc_factor`).
    doublings: u32,
    /// Pages freed in a row; halved by each allocation (`free_count`).
    freed_in_a_row: u32,
    idle_ticks: u32,
}

impl EventsTuner {
    /// Returns a tuner without history.
    pub fn new(limits: &ListLimits) -> Self {
        Self { high: limits.high_default, doublings: 0, freed_in_a_row: 0, idle_ticks: 0 }
    }

    fn batch_max(limits: &ListLimits) -> u32 {
        scaled(limits, DOUBLINGS_MAX)
    }
}

/// Returns the batch after `doublings` doublings.
fn scaled(limits: &ListLimits, doublings: u32) -> u32 {
    limits.batch().saturating_mul(1 << doublings)
}

impl Tuner for EventsTuner {
    fn allocated(&mut self, _pages: u32) {
        self.idle_ticks = 0;
        self.freed_in_a_row >>= 1;
    }

    fn refill(&mut self, limits: &ListLimits, count: u32) -> u32 {
        self.idle_ticks = 0;
        let high = self.high(limits);
        if high < limits.batch() {
            return 1;
        }
        let batch = scaled(limits, self.doublings);
        // A list longer by this batch would not have needed the refill.
        self.high = limits.clamp(high.saturating_add(batch));
        let room = self.high.saturating_sub(count).saturating_sub(limits.batch());
        let most = room.max(limits.batch());
        if batch <= most && self.doublings < DOUBLINGS_MAX {
            self.doublings += 1;
        }
        batch.min(most)
    }

    fn freed(&mut self, limits: &ListLimits, pages: u32, count: u32, _now_ms: u64) -> u32 {
        self.idle_ticks = 0;
        self.doublings >>= 1;
        if self.freed_in_a_row < Self::batch_max(limits) {
            self.freed_in_a_row = self.freed_in_a_row.saturating_add(pages);
        }
        let high = self.high(limits);
        if high == 0 {
            return count;
        }
        if count < high {
            return 0;
        }
        // There must be room for pages that are freed in a row; it counts from the next free on.
        let needed = self.freed_in_a_row.saturating_add(limits.batch());
        self.high = limits.clamp(high.max(needed));
        free_count(limits, high, self.freed_in_a_row.into(), pages, count)
    }

    fn tick(&mut self, limits: &ListLimits, count: u32, _now_ms: u64) -> u32 {
        self.idle_ticks = self.idle_ticks.saturating_add(1);
        if self.idle_ticks >= IDLE_TICKS {
            self.high = limits.high_default;
        } else {
            // Not so low that more than the largest batch must go back at once.
            let cautious = count.saturating_sub(Self::batch_max(limits));
            let high = self.high(limits);
            self.high = limits.clamp(cautious.max(high - high / 8));
        }
        count.saturating_sub(self.high(limits))
    }

    fn shrink(&mut self, limits: &ListLimits, count: u32) -> u32 {
        let less = self.freed_in_a_row.max(limits.batch());
        self.high = limits.clamp(self.high(limits).saturating_sub(less));
        excess_when_short(limits, self.high, count)
    }

    /// Assumes CPU caches of more than three batches for each CPU, with which the kernel leaves
    /// less than a batch (`PCPF_FREE_HIGH_BATCH`). The kernel also checks whether the previous free
    /// was a run; that is not recorded here.
    fn drain_count(&self, limits: &ListLimits, count: u32) -> u32 {
        let batch = limits.batch();
        let is_due = self.freed_in_a_row >= batch && count >= batch;
        if is_due { count.min(Self::batch_max(limits)) } else { 0 }
    }

    fn high(&self, limits: &ListLimits) -> u32 {
        limits.clamp(self.high)
    }
}
