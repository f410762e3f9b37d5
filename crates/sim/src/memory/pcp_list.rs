//! The list of free pages that a CPU keeps in front of a zone (the kernel's pcp list).

use std::ops::RangeInclusive;

use nodeward_policy::pcp::{AnyTuner, ListLimits, Tuner, TunerKind};

use super::lru_lock::LruBatch;

/// Halvings after which nothing is left of a 32-bit number.
const HALVINGS: u64 = 32;
/// Sizes of runs that lists keep for a while, up to `PAGE_ALLOC_COSTLY_ORDER`.
const RUNS: RangeInclusive<u32> = 2..=8;

/// A CPU's list of free pages of one node.
#[derive(Debug)]
pub struct PcpList {
    /// Pages in the list.
    pub count: u32,
    /// Decides how many pages it keeps.
    pub tuner: AnyTuner,
    /// Ticks since the list was last used.
    pub idle_ticks: u8,
    /// Whether runs drain it, as in the kernel.
    drains_on_runs: bool,
}

impl PcpList {
    /// Creates an empty list.
    pub fn new(tuning: TunerKind, limits: &ListLimits, drains: bool) -> Self {
        Self { count: 0, tuner: tuning.tuner(limits), idle_ticks: 0, drains_on_runs: drains }
    }

    /// Takes pages one by one. For the tuner each allocation is a sum and a halving, so the rest of
    /// a long row is reported as one.
    pub fn allocate(&mut self, pages: u32) {
        self.idle_ticks = 0;
        let singly = u64::from(pages).min(HALVINGS) as u32;
        for _ in 0..singly {
            self.tuner.allocated(1);
        }
        if pages > singly {
            self.tuner.allocated(pages - singly);
        }
        self.count -= pages;
    }

    /// Puts a run of `pages` pages into the list. Returns the number of pages to return to the
    /// zone.
    pub fn free(&mut self, limits: &ListLimits, pages: u32, is_short: bool, now_ms: u64) -> u32 {
        self.count += pages;
        let drained = match self.drains_on_runs && RUNS.contains(&pages) {
            true => self.tuner.drain_count(limits, self.count),
            false => 0,
        };
        let back = self.tuner.freed(limits, pages, self.count, now_ms);
        let back = if is_short { back.max(self.tuner.shrink(limits, self.count)) } else { back };
        back.max(drained).min(self.count)
    }
}

/// Work that a CPU has deferred to its next step. Locks have to be requested at the world's present
/// time, because requests would otherwise arrive out of order.
#[derive(Clone, Debug, Default)]
pub struct DeferredFrees {
    /// Pages of a node's list to return to its zone.
    pub list_excess: Option<(usize, u32)>,
    /// Huge pages to return to a node's zone.
    pub huge_pages: Option<(usize, u64)>,
    /// Pages that were added to or removed from a group's LRU lists.
    pub lru: LruBatch,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Goal: a tuner treats a row of allocations like the single ones.
        #[test]
        fn a_row_is_its_pages(
            tuning in prop::sample::select(TunerKind::ALL.to_vec()),
            steps in prop::collection::vec((1_u32..100, 1_u32..200), 1..40),
        ) {
            let limits = ListLimits { batch: 63, high_default: 300, high_max: 4000 };
            let list = || PcpList::new(tuning, &limits, false);
            let (mut row, mut singly) = (list(), list());
            for (index, (taken, freed)) in steps.into_iter().enumerate() {
                for list in [&mut row, &mut singly] {
                    while list.count < taken {
                        list.count += list.tuner.refill(&limits, list.count);
                    }
                }
                row.allocate(taken);
                (0..taken).for_each(|_| singly.allocate(1));
                for list in [&mut row, &mut singly] {
                    for _ in 0..freed {
                        let back = list.free(&limits, 1, false, index as u64 * 400);
                        list.count -= back;
                    }
                }
                let seen = [&row, &singly].map(|list| (list.count, list.tuner.high(&limits)));
                prop_assert_eq!(seen[0], seen[1]);
            }
        }
    }
}
