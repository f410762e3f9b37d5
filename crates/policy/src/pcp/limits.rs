//! The limits of a list, and how many pages go back to the zone within them.

/// The limits of a list, in base pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListLimits {
    /// The smallest number of pages to or from the zone at once; 0 counts as 1. The kernel's is 63.
    pub batch: u32,
    /// The length of the list until the tuner has history; 0 if it is to keep nothing. At least
    /// four batches, as in the kernel, or the batches do not fit.
    pub high_default: u32,
    /// The largest length of the list; less than `high_default` counts as `high_default`.
    pub high_max: u32,
}

impl ListLimits {
    pub(super) fn is_disabled(&self) -> bool {
        self.high_default == 0
    }

    pub(super) fn batch(&self) -> u32 {
        self.batch.max(1)
    }

    /// Returns the nearest `pcp_high` within the limits.
    pub(super) fn clamp(&self, high: u32) -> u32 {
        if self.is_disabled() { 0 } else { high.min(self.high_max).max(self.high_default) }
    }
}

/// Returns the pages of `count` that are too many while memory is short: then four batches stay.
pub(super) fn excess_when_short(limits: &ListLimits, high: u32, count: u32) -> u32 {
    count.saturating_sub(high.min(limits.batch().saturating_mul(4)))
}

/// Returns the pages to give back at once when pages came, if the list is long enough: up to
/// `wanted`, at least one batch, and no more than leaves a batch in the list.
pub(super) fn free_count(
    limits: &ListLimits,
    high: u32,
    wanted: u64,
    pages: u32,
    count: u32,
) -> u32 {
    let batch = limits.batch();
    let most = high.saturating_sub(batch);
    let bulk = u32::try_from(wanted).unwrap_or(u32::MAX).max(batch).min(most);
    // No fewer than came, or lists with little room would grow: the kernel gives back whole runs,
    // and one page at least.
    bulk.max(pages).min(count)
}
