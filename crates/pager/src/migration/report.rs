//! The outcome of a migration: the account of its pages, and the time of each step.

use std::time::Instant;

use nodeward_model::{Account, SkipReason};

/// The outcome of a migration: an account of every page of the range, and the cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigrationReport {
    /// Every base page of the range, those absent from memory
    /// ([`nodeward_model::SkipReason::NotPresent`]) included.
    pub account: Account,
    /// Base pages that were moved to recycled pages: those that earlier migrations emptied.
    pub recycled_pages: u64,
    /// Base pages that were moved to fresh pages.
    pub one_way_pages: u64,
    /// Base pages among `one_way_pages` that the kernel moved (move_pages(2)).
    pub by_kernel_pages: u64,
    /// Blocks of 2 MiB that left as base pages and arrived as one huge page.
    pub huge_arrivals: u64,
    /// Blocks of 2 MiB of which base pages arrived as base pages, although huge pages were asked
    /// for ([`crate::Arrive::Huge`]).
    pub huge_fallbacks: u64,
    /// Base pages that were left out, to be pulled in by the next thread that touches them.
    pub lazy_pages: u64,
    /// Number of batches.
    pub batches: u64,
    /// Number of lanes in use at the end.
    pub lanes: u32,
    /// Time from start to end, in nanoseconds.
    pub took_ns: u64,
    /// Time by step, summed over the lanes.
    pub step_times: StepTimes,
    /// The longest time that a page was out of sight, in nanoseconds. For pages that the kernel
    /// moved it is the time of the whole call.
    pub longest_hold_ns: u64,
    /// The migration was cancelled, or ended because the region was dropped.
    pub cancelled: bool,
}

/// Time by step, in nanoseconds. With fresh base pages the kernel copies in the map step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepTimes {
    /// Taking pages out of sight.
    pub unmap_ns: u64,
    /// Copying.
    pub copy_ns: u64,
    /// Bringing pages into sight.
    pub map_ns: u64,
    /// Getting destination pages and giving back emptied ones.
    pub supply_ns: u64,
    /// Calls in which the kernel did all steps.
    pub kernel_ns: u64,
}

impl MigrationReport {
    /// An empty report in which counting a page never allocates.
    pub(crate) fn preallocated() -> Self {
        let skipped = SkipReason::ALL.map(|reason| (reason, 0)).into();
        Self { account: Account { skipped, ..Account::default() }, ..Self::default() }
    }

    /// Empties a report made by [`Self::preallocated`], and keeps its room.
    pub(crate) fn clear(&mut self) {
        let mut skipped = std::mem::take(&mut self.account.skipped);
        skipped.values_mut().for_each(|pages| *pages = 0);
        *self = Self { account: Account { skipped, ..Account::default() }, ..Self::default() };
    }

    /// Adds the report of work that began when this was over.
    pub(crate) fn add_later(&mut self, other: &Self) {
        self.add(other);
        self.took_ns += other.took_ns;
        self.lanes = self.lanes.max(other.lanes);
    }

    /// Adds the report of another lane, except `took_ns`: lanes run in parallel.
    pub(crate) fn add(&mut self, other: &Self) {
        self.account.add(&other.account);
        self.recycled_pages += other.recycled_pages;
        self.one_way_pages += other.one_way_pages;
        self.by_kernel_pages += other.by_kernel_pages;
        self.huge_arrivals += other.huge_arrivals;
        self.huge_fallbacks += other.huge_fallbacks;
        self.lazy_pages += other.lazy_pages;
        self.batches += other.batches;
        self.step_times.add(other.step_times);
        self.longest_hold_ns = self.longest_hold_ns.max(other.longest_hold_ns);
        self.cancelled |= other.cancelled;
    }
}

impl StepTimes {
    /// Adds the times of other work.
    pub fn add(&mut self, other: Self) {
        self.unmap_ns += other.unmap_ns;
        self.copy_ns += other.copy_ns;
        self.map_ns += other.map_ns;
        self.supply_ns += other.supply_ns;
        self.kernel_ns += other.kernel_ns;
    }
}

/// Returns the time elapsed since `since` as reports have it, in nanoseconds.
pub fn elapsed_ns(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
