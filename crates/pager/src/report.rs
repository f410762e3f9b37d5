//! What came of a migration.

use nodeward_model::{Account, SkipReason};

/// The outcome: where every page of the range ended, and what it took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Every base page of the range that is in memory, and every one that is not
    /// ([`nodeward_model::SkipReason::NotPresent`]).
    pub account: Account,
    /// Base pages that went to pages kept from earlier migrations.
    pub recycled_pages: u64,
    /// Base pages that went to fresh pages.
    pub one_way_pages: u64,
    /// Of those, the ones that the kernel moved (move_pages(2)).
    pub by_kernel_pages: u64,
    /// Base pages that were left out, to be pulled by the next thread that touches them.
    pub lazy_pages: u64,
    /// Batches.
    pub batches: u64,
    /// Lanes that took part.
    pub lanes: u32,
    /// From beginning to end, in nanoseconds.
    pub took_ns: u64,
    /// Where the lanes spent their time, summed over lanes.
    pub spent: Spent,
    /// The longest time that pages were out of sight, in nanoseconds. Of pages that the kernel
    /// moved only the time of the call is known.
    pub longest_hold_ns: u64,
    /// Whether it was cancelled, or ended by dropping the region.
    pub cancelled: bool,
}

/// Nanoseconds by step. With fresh base pages the kernel copies while it maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Taking pages out of sight.
    pub unmap_ns: u64,
    /// Copying.
    pub copy_ns: u64,
    /// Bringing pages into sight.
    pub map_ns: u64,
    /// Getting destination pages and giving back emptied ones.
    pub supply_ns: u64,
    /// Calls by which the kernel did all of that.
    pub kernel_ns: u64,
}

impl Report {
    /// An empty one in which no page counted allocates.
    pub(crate) fn with_room() -> Self {
        let skipped = SkipReason::ALL.map(|reason| (reason, 0)).into();
        Self { account: Account { skipped, ..Account::default() }, ..Self::default() }
    }

    /// Empties one that was made with room, and leaves it the room.
    pub(crate) fn clear(&mut self) {
        let mut skipped = std::mem::take(&mut self.account.skipped);
        skipped.values_mut().for_each(|pages| *pages = 0);
        *self = Self { account: Account { skipped, ..Account::default() }, ..Self::default() };
    }

    /// Adds what another lane did; times run side by side, so the caller sets `took_ns`.
    pub(crate) fn add(&mut self, other: &Self) {
        self.account.add(&other.account);
        self.recycled_pages += other.recycled_pages;
        self.one_way_pages += other.one_way_pages;
        self.by_kernel_pages += other.by_kernel_pages;
        self.lazy_pages += other.lazy_pages;
        self.batches += other.batches;
        self.spent.add(other.spent);
        self.longest_hold_ns = self.longest_hold_ns.max(other.longest_hold_ns);
        self.cancelled |= other.cancelled;
    }
}

impl Spent {
    fn add(&mut self, other: Self) {
        self.unmap_ns += other.unmap_ns;
        self.copy_ns += other.copy_ns;
        self.map_ns += other.map_ns;
        self.supply_ns += other.supply_ns;
        self.kernel_ns += other.kernel_ns;
    }
}
