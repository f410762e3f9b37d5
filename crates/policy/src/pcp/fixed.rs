//! The lists of Linux 5.14 to 6.6: `pcp_high` is constant.

use super::limits::{ListLimits, excess_when_short, free_count};
use super::tuner::Tuner;

/// Keeps `high_default`. Takes one batch at a time from the zone, also for many refills in a row;
/// gives back twice as much each time in a row.
#[derive(Clone, Debug, Default)]
pub struct FixedTuner {
    free_batch: FreeBatch,
}

impl Tuner for FixedTuner {
    fn allocated(&mut self, _pages: u32) {
        self.free_batch.allocated();
    }

    fn refill(&mut self, limits: &ListLimits, _count: u32) -> u32 {
        refill(limits)
    }

    fn freed(&mut self, limits: &ListLimits, pages: u32, count: u32, _now_ms: u64) -> u32 {
        self.free_batch.freed(limits, self.high(limits), pages, count)
    }

    fn tick(&mut self, limits: &ListLimits, count: u32, _now_ms: u64) -> u32 {
        count.saturating_sub(self.high(limits))
    }

    fn shrink(&mut self, limits: &ListLimits, count: u32) -> u32 {
        excess_when_short(limits, self.high(limits), count)
    }

    fn drain_count(&self, _limits: &ListLimits, count: u32) -> u32 {
        self.free_batch.drain_count(count)
    }

    fn high(&self, limits: &ListLimits) -> u32 {
        limits.high_default
    }
}

/// Returns the number of pages to take from the zone: always one batch.
pub(super) fn refill(limits: &ListLimits) -> u32 {
    if limits.is_disabled() { 1 } else { limits.batch() }
}

/// The number of pages that go back at once (the kernel's `nr_pcp_free` before 6.7).
#[derive(Clone, Debug, Default)]
pub(super) struct FreeBatch {
    /// The doublings of the batch (`free_factor`).
    doublings: u32,
}

impl FreeBatch {
    pub(super) fn allocated(&mut self) {
        self.doublings >>= 1;
    }

    /// Returns all pages, from the first batch that went back until an allocation (`free_high`).
    pub(super) fn drain_count(&self, count: u32) -> u32 {
        if self.doublings > 0 { count } else { 0 }
    }

    pub(super) fn freed(&mut self, limits: &ListLimits, high: u32, pages: u32, count: u32) -> u32 {
        if high == 0 {
            return count;
        }
        if count < high {
            return 0;
        }
        // At most 32 doublings: another one only while the batch fits 32 bits.
        let wanted = u64::from(limits.batch()) << self.doublings;
        if wanted < u64::from(high.saturating_sub(limits.batch())) {
            self.doublings += 1;
        }
        free_count(limits, high, wanted, pages, count)
    }
}
