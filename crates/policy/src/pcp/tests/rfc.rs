//! Goal: [`DepthTuner`] equals the RFC's patch, which is repeated here with its names and its
//! order.

use proptest::prelude::*;

use super::{DISABLED, LIMITS, START_MS, pages, times_ms};
use crate::pcp::{DepthTuner, ListLimits, Tuner};

/// Jiffies are milliseconds here.
const HZ: u64 = 1000;

/// `struct per_cpu_pages` with the fields that the patch and its base use.
#[derive(Debug, Default)]
struct PerCpuPages {
    count: i64,
    high: i64,
    high_def: i64,
    high_max: i64,
    batch: i64,
    free_factor: u32,
    alloc_count: i64,
    alloc_high: i64,
    alloc_low: i64,
    alloc_depth: i64,
    free_depth: i64,
    avg_alloc_depth: i64,
    avg_free_depth: i64,
    tune_start: u64,
}

impl PerCpuPages {
    fn new(limits: &ListLimits) -> Self {
        Self {
            high: limits.high_default.into(),
            high_def: limits.high_default.into(),
            high_max: limits.high_max.into(),
            batch: limits.batch.into(),
            ..Self::default()
        }
    }

    fn rmqueue_pcplist(&mut self, pages: i64) {
        self.alloc_count += pages;
        self.alloc_high = self.alloc_high.max(self.alloc_count);
        self.alloc_depth = self.alloc_depth.max(self.alloc_count - self.alloc_low);
        self.free_factor >>= 1;
        if self.count < pages {
            // rmqueue_bulk, and one run at least
            self.count += self.batch.max(pages);
        }
        self.count -= pages;
    }

    fn tune_pcp_high(&mut self, jiffies: u64) {
        let now = jiffies;
        if now - self.tune_start <= HZ {
            return;
        }
        if now - self.tune_start > 2 * HZ {
            self.tune_start = now;
            self.alloc_high = 0;
            self.alloc_low = 0;
            self.alloc_count = 0;
            self.alloc_depth = 0;
            self.free_depth = 0;
            self.avg_alloc_depth = 0;
            self.avg_free_depth = 0;
            self.high = self.high_def;
            return;
        }
        self.tune_start = now;
        self.avg_alloc_depth = (self.avg_alloc_depth + self.alloc_depth) / 2;
        self.avg_free_depth = (self.avg_free_depth + self.free_depth) / 2;
        self.alloc_high = 0;
        self.alloc_low = 0;
        self.alloc_count = 0;
        self.alloc_depth = 0;
        self.free_depth = 0;
        let high = self.avg_alloc_depth.min(self.avg_free_depth);
        self.high = high.clamp(self.high_def, self.high_max);
    }

    /// Returns the pages that `free_pcppages_bulk` takes from the list.
    fn free_unref_page_commit(&mut self, pages: i64, jiffies: u64) -> i64 {
        if self.high_def == 0 {
            self.high = self.high_def;
            self.tune_start = 0;
        } else {
            self.alloc_count -= pages;
            self.alloc_low = self.alloc_low.min(self.alloc_count);
            self.free_depth = self.free_depth.max(self.alloc_high - self.alloc_count);
            self.tune_pcp_high(jiffies);
        }
        self.count += pages;
        if self.count < self.high {
            return 0;
        }
        // The pages that came go first, whole (`free_pcppages_bulk`).
        let freed = self.nr_pcp_free().max(pages).min(self.count);
        self.count -= freed;
        freed
    }

    /// From the base, Linux 6.4.
    fn nr_pcp_free(&mut self) -> i64 {
        if self.high < self.batch {
            return 1;
        }
        let min_nr_free = self.batch;
        let max_nr_free = self.high - self.batch;
        let batch = self.batch << self.free_factor;
        if batch < max_nr_free {
            self.free_factor += 1;
        }
        batch.clamp(min_nr_free, max_nr_free)
    }
}

/// The same list with both tuners.
struct TunerPair {
    limits: ListLimits,
    rfc: PerCpuPages,
    ours: DepthTuner,
    count: u32,
    now_ms: u64,
}

impl TunerPair {
    fn new(limits: ListLimits) -> Self {
        let (rfc, ours) = (PerCpuPages::new(&limits), DepthTuner::new(&limits));
        Self { limits, rfc, ours, count: 0, now_ms: START_MS }
    }

    fn allocate(&mut self, pages: u32) {
        self.rfc.rmqueue_pcplist(pages.into());
        self.ours.allocated(pages);
        if self.count < pages {
            self.count += self.ours.refill(&self.limits, self.count).max(pages);
        }
        self.count -= pages;
    }

    fn free(&mut self, pages: u32, after_ms: u64) {
        self.now_ms += after_ms;
        self.count += pages;
        let given = self.ours.freed(&self.limits, pages, self.count, self.now_ms);
        self.count -= given;
        let freed = self.rfc.free_unref_page_commit(pages.into(), self.now_ms);
        assert_eq!(i64::from(given), freed, "pages that went back");
        assert_eq!(i64::from(self.ours.high(&self.limits)), self.rfc.high, "pcp_high");
        assert_eq!(i64::from(self.count), self.rfc.count, "pages in the list");
    }

    /// Only ours has ticks. The pages that it gives back stay in both lists, so that they can be
    /// compared.
    fn tick(&mut self) {
        self.ours.tick(&self.limits, self.count, self.now_ms);
    }
}

#[derive(Clone, Copy, Debug)]
enum PairEvent {
    Allocate(u32),
    Free(u32, u64),
    Tick,
}

fn steps() -> impl Strategy<Value = Vec<PairEvent>> {
    let step = prop_oneof![
        4 => pages().prop_map(PairEvent::Allocate),
        4 => (pages(), times_ms()).prop_map(|(pages, after_ms)| PairEvent::Free(pages, after_ms)),
        1 => Just(PairEvent::Tick),
    ];
    proptest::collection::vec(step, 0..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Goal: after each free the state is that of the RFC, with any ticks before.
    #[test]
    fn depth_is_the_rfc(
        batch in 1..200_u32, batches in 4..20_u32, room in 0..60_000_u32, steps in steps(),
    ) {
        let high_default = batch * batches;
        let limits = ListLimits { batch, high_default, high_max: high_default + room };
        let mut pair = TunerPair::new(limits);
        for step in steps {
            match step {
                PairEvent::Allocate(pages) => pair.allocate(pages),
                PairEvent::Free(pages, after_ms) => pair.free(pages, after_ms),
                PairEvent::Tick => pair.tick(),
            }
        }
    }
}

/// Goal: the same for the trace of the cover letter: 128 MiB up and down, ten times a second, for 6
/// s.
#[test]
fn depth_is_the_rfc_for_page_fault1() {
    let mut pair = TunerPair::new(LIMITS);
    for _ in 0..60 {
        (0..32_768).for_each(|_| pair.allocate(1));
        (0..32_768).for_each(|page| pair.free(1, u64::from(page % 328 == 0)));
    }
    assert!(pair.rfc.high > 30_000, "the trace did not tune anything: {:?}", pair.rfc);
}

/// Goal: the same with batches of 1, as the kernel has them where lists are switched off.
#[test]
fn depth_is_the_rfc_for_a_list_that_is_switched_off() {
    let mut pair = TunerPair::new(ListLimits { batch: 1, ..DISABLED });
    for pages in [1, 1, 8, 1, 512] {
        pair.allocate(pages);
        pair.free(pages, 600);
    }
}
