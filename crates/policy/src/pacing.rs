//! The speed of a move and the length of its pauses: the rate limit and the stall budget.

use crate::folio_plan::FolioMove;

/// Limits a move to a number of bytes per second. Unused time is not saved up, so a burst never
/// follows a pause.
#[derive(Clone, Copy, Debug)]
pub struct RateLimit {
    bytes_per_s: u64,
    free_at_ns: u64,
}

impl RateLimit {
    /// Returns a limit that starts idle.
    pub fn new(bytes_per_s: u64) -> Self {
        Self { bytes_per_s: bytes_per_s.max(1), free_at_ns: 0 }
    }

    /// Reserves `bytes` and returns the nanoseconds to wait before moving them.
    pub fn reserve(&mut self, now_ns: u64, bytes: u64) -> u64 {
        let start_ns = self.free_at_ns.max(now_ns);
        let cost_ns = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s);
        self.free_at_ns = start_ns.saturating_add(u64::try_from(cost_ns).unwrap_or(u64::MAX));
        start_ns - now_ns
    }

    /// Returns the largest number of bytes to move in one piece, so that the rate looks even: 50 ms
    /// worth.
    pub fn burst_bytes_max(&self) -> u64 {
        self.bytes_per_s / 20
    }
}

/// The largest number of base pages that the kernel unmaps at once (NR_MAX_BATCHED_MIGRATION).
pub const RUN_PAGES_MAX: u32 = 512;
/// Shorter runs cost more in TLB flushes than they save in waiting.
const RUN_PAGES_MIN: u32 = 4;
/// The assumed cost of a page until one was measured.
const PAGE_NS_INITIAL: u64 = 4_000;
/// Pages of the first call, which measures the cost of a page. Few, because the length of their
/// runs is based on the assumed cost, but enough that the fixed cost of a call (about 1 ms at
/// worst) does not dominate.
const FIRST_CALL_PAGES: u64 = 512;
/// Pages of later calls: the length of runs is fixed for a whole call, and the cost may change.
const CALL_PAGES_MAX: u64 = 4096;
/// The inverse of the part of the budget that a run may use. The rest is for the other delays of a
/// waiting thread: its fault, its wake-up, and a preemption of the mover.
const RUN_BUDGET_DIVISOR: u64 = 6;

/// Keeps the time for which pages are held within a budget, by measuring the cost of a page.
#[derive(Clone, Copy, Debug)]
pub struct StallBudget {
    budget_ns: u64,
    page_ns: Option<u64>,
    huge_page_ns: Option<u64>,
}

impl StallBudget {
    /// Returns a budget in nanoseconds.
    pub fn new(budget_ns: u64) -> Self {
        Self { budget_ns, page_ns: None, huge_page_ns: None }
    }

    /// Learns from a call that moved base pages. Follows a rise at once and a fall slowly: a run
    /// that is too short costs a little speed, one that is too long breaks the budget.
    pub fn learn(&mut self, pages: u64, took_ns: u64) {
        if let Some(page_ns) = took_ns.checked_div(pages) {
            let before = self.page_ns.unwrap_or(page_ns);
            self.page_ns = Some(page_ns.max((before * 7 + page_ns) / 8).max(1));
        }
    }

    /// Learns from a call that moved folios of many pages: nanoseconds per base page.
    pub fn learn_huge(&mut self, pages: u64, took_ns: u64) {
        let page_ns = took_ns.checked_div(pages);
        self.huge_page_ns = page_ns.map(|ns| ns.max(1)).or(self.huge_page_ns);
    }

    /// Returns the base pages to pass to the next call.
    pub fn call_pages(&self) -> u64 {
        if self.page_ns.is_none() { FIRST_CALL_PAGES } else { CALL_PAGES_MAX }
    }

    /// Returns the base pages that may be held together.
    pub fn run_pages(&self) -> u32 {
        let pages = self.budget_ns / RUN_BUDGET_DIVISOR / self.page_ns.unwrap_or(PAGE_NS_INITIAL);
        u32::try_from(pages).unwrap_or(u32::MAX).clamp(RUN_PAGES_MIN, RUN_PAGES_MAX)
    }

    /// Returns the largest folio that can be moved within the budget, in base pages. Until one was
    /// measured every folio may be tried.
    pub fn folio_pages_max(&self) -> u32 {
        let pages = self.huge_page_ns.map(|page_ns| self.budget_ns / page_ns);
        pages.map_or(u32::MAX, |pages| u32::try_from(pages).unwrap_or(u32::MAX).max(1))
    }

    /// Returns the largest folio, in base pages, that may be moved alone although it takes up to
    /// twice the budget: most huge pages stayed otherwise.
    pub fn lone_folio_pages_max(&self) -> u32 {
        self.folio_pages_max().saturating_mul(2)
    }

    /// Returns whether a time is beyond the budget.
    pub fn is_exceeded_by(&self, hold_ns: u64) -> bool {
        hold_ns > self.budget_ns
    }

    /// Returns the budget that moves a folio of `folio_pages` base pages: the measured time of its
    /// pages plus a quarter, because times vary. `None` before one was measured.
    pub fn budget_for_ns(&self, folio_pages: u32) -> Option<u64> {
        let ns = self.huge_page_ns?.saturating_mul(u64::from(folio_pages));
        Some(ns.saturating_add(ns / 4))
    }
}

/// Splits folios into runs of at most `run_pages` base pages to one node; returns the number of
/// folios in each run. A larger folio is a run of its own.
pub fn run_lengths(folios: &[FolioMove], run_pages: u32) -> Vec<usize> {
    let mut runs = Vec::new();
    let mut rest = folios;
    while let Some(first) = rest.first() {
        let mut pages = 0;
        let fits = |folio: &&FolioMove| {
            pages += u64::from(folio.pages);
            folio.to == first.to && pages <= u64::from(run_pages)
        };
        let count = rest.iter().take_while(fits).count().max(1);
        runs.push(count);
        rest = &rest[count..];
    }
    runs
}

#[cfg(test)]
mod tests {
    use nodeward_model::NodeId;
    use proptest::prelude::*;

    use super::*;

    fn folio(pages: u32, to: u32) -> FolioMove {
        FolioMove { address: 4096, pages, from: NodeId(9), to: NodeId(to) }
    }

    #[test]
    fn the_rate_is_kept_and_pauses_are_not_saved_up() {
        let mut limit = RateLimit::new(1_000_000); // 1 byte per microsecond
        assert_eq!(limit.reserve(0, 500), 0, "the first bytes go at once");
        assert_eq!(limit.reserve(100_000, 500), 400_000, "500 us for the first, 100 us are past");
        assert_eq!(limit.reserve(9_000_000, 500), 0, "idle since 1 ms");
        assert_eq!(limit.reserve(9_000_000, 1), 500_000, "no burst after the pause");
    }

    #[test]
    fn runs_shrink_at_once_when_pages_get_dearer() {
        let mut budget = StallBudget::new(1_000_000);
        assert_eq!((budget.run_pages(), budget.call_pages()), (41, 512)); // 166 us / 4 us
        budget.learn(100, 200_000);
        assert_eq!((budget.run_pages(), budget.call_pages()), (83, 4096)); // 166 us / 2 us
        budget.learn(100, 100_000);
        assert_eq!(budget.run_pages(), 88); // 166 us / ((2*7 + 1) / 8 = 1.875 us)
        budget.learn(100, 1_000_000);
        assert_eq!(budget.run_pages(), 16); // 166 us / 10 us
        budget.learn(1, 1_000_000_000);
        assert_eq!(budget.run_pages(), RUN_PAGES_MIN);
    }

    #[test]
    fn a_huge_folio_is_tried_once_and_then_judged() {
        let mut budget = StallBudget::new(1_000_000);
        assert_eq!(budget.folio_pages_max(), u32::MAX);
        budget.learn_huge(512, 2_048_000); // 4 us a page: a 2 MiB page takes 2.05 ms
        assert_eq!(budget.folio_pages_max(), 250);
        assert_eq!(budget.budget_for_ns(512), Some(2_560_000), "2.048 ms and a quarter");
        assert!(StallBudget::new(2_560_000).budget_for_ns(512).is_none());
        let mut enough = StallBudget::new(2_560_000);
        enough.learn_huge(512, 2_048_000);
        assert!(enough.folio_pages_max() >= 512);
        // 2.048 ms are within twice 1.03 ms, and not within twice 1 ms.
        let mut half = StallBudget::new(1_030_000);
        half.learn_huge(512, 2_048_000);
        assert!(half.folio_pages_max() < 512 && half.lone_folio_pages_max() >= 512);
        assert!(budget.lone_folio_pages_max() < 512);
        assert!(half.is_exceeded_by(2_048_000) && !half.is_exceeded_by(1_030_000));
    }

    #[test]
    fn runs_end_at_the_limit_and_at_another_destination() {
        let folios = [folio(1, 0), folio(1, 0), folio(1, 0), folio(1, 1), folio(512, 1)];
        assert_eq!(run_lengths(&folios, 2), [2, 1, 1, 1]);
        assert!(run_lengths(&[], 2).is_empty());
    }

    proptest! {
        #[test]
        fn runs_cover_every_folio_once(
            sizes in proptest::collection::vec((1..600_u32, 0..3_u32), 0..50),
            run_pages in 1..600_u32,
        ) {
            let folios: Vec<_> = sizes.into_iter().map(|(pages, to)| folio(pages, to)).collect();
            let runs = run_lengths(&folios, run_pages);
            prop_assert_eq!(runs.iter().sum::<usize>(), folios.len());
            let mut rest = folios.as_slice();
            for count in runs {
                let (run, after) = rest.split_at(count);
                let pages: u32 = run.iter().map(|f| f.pages).sum();
                prop_assert!(pages <= run_pages || run.len() == 1);
                prop_assert!(run.iter().all(|f| f.to == run[0].to));
                rest = after;
            }
        }
    }
}
