//! The tuner of the RFC of 2023: `pcp_high` follows the depth to which a CPU allocates and frees in
//! turn.

use super::depth_period::{DepthAverages, DepthPeriod};
use super::fixed::{self, FreeBatch};
use super::limits::{ListLimits, excess_when_short};
use super::tuner::Tuner;

/// The period in which depths are measured before they count (`PCP_AUTO_TUNE_PERIOD`, one second).
/// A caller that wants another period scales the time that it passes.
pub const PERIOD_MS: u64 = 1000;

/// Keeps the smaller of two averages: the depth to which allocations ran ahead of frees in a
/// period, and frees ahead of allocations. A CPU that only allocates or only frees gains nothing
/// from a list, and gets none beyond the default. Takes from and gives back to the zone like
/// [`super::FixedTuner`].
///
/// After "[RFC 2/2] mm: alloc/free depth based PCP high auto-tuning" (Huang Ying, July 2023), line
/// by line, except [`Tuner::tick`]: the RFC checks the time only at a free, so that an unused list
/// keeps its length.
#[derive(Clone, Debug)]
pub struct DepthTuner {
    free_batch: FreeBatch,
    period: DepthPeriod,
    averages: DepthAverages,
    since_ms: u64,
    high: u32,
}

impl DepthTuner {
    /// Returns a tuner without history.
    pub fn new(limits: &ListLimits) -> Self {
        Self {
            free_batch: FreeBatch::default(),
            period: DepthPeriod::default(),
            averages: DepthAverages::default(),
            since_ms: 0,
            high: limits.high_default,
        }
    }

    fn tune(&mut self, limits: &ListLimits, now_ms: u64) {
        // CPUs may read the clock before they wait for the lock, so it may seem to run backwards.
        if now_ms.saturating_sub(self.since_ms) <= PERIOD_MS {
            return;
        }
        if self.is_overdue(now_ms) {
            self.averages = DepthAverages::default();
            self.high = limits.high_default;
        } else {
            self.averages.add(self.period.alloc_depth, self.period.free_depth);
            self.high = self.averages.high(limits);
        }
        self.since_ms = now_ms;
        self.period = DepthPeriod::default();
    }

    /// Returns true if nothing was freed for so long that old depths are meaningless.
    fn is_overdue(&self, now_ms: u64) -> bool {
        now_ms.saturating_sub(self.since_ms) > 2 * PERIOD_MS
    }
}

impl Tuner for DepthTuner {
    fn allocated(&mut self, pages: u32) {
        self.period.allocated(pages);
        self.free_batch.allocated();
    }

    fn refill(&mut self, limits: &ListLimits, _count: u32) -> u32 {
        fixed::refill(limits)
    }

    fn freed(&mut self, limits: &ListLimits, pages: u32, count: u32, now_ms: u64) -> u32 {
        if limits.is_disabled() {
            self.high = 0;
            self.since_ms = 0;
        } else {
            self.period.freed(pages);
            self.tune(limits, now_ms);
        }
        self.free_batch.freed(limits, self.high(limits), pages, count)
    }

    /// Resets `pcp_high` where the next free would do so anyway, and leaves the rest to that free.
    /// So the depths are those of the RFC, whenever the ticks come. A list from which a CPU only
    /// allocates is reset too. The RFC would do so at the first free, because it does not check
    /// whether something was allocated; and pages that are never freed here need no room.
    fn tick(&mut self, limits: &ListLimits, count: u32, now_ms: u64) -> u32 {
        if self.is_overdue(now_ms) {
            self.high = limits.high_default;
        }
        count.saturating_sub(self.high(limits))
    }

    fn shrink(&mut self, limits: &ListLimits, count: u32) -> u32 {
        excess_when_short(limits, self.high(limits), count)
    }

    fn drain_count(&self, _limits: &ListLimits, count: u32) -> u32 {
        self.free_batch.drain_count(count)
    }

    fn high(&self, limits: &ListLimits) -> u32 {
        limits.clamp(self.high)
    }
}
