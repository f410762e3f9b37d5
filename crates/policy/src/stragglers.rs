//! Detects stragglers among the lanes: one that is too slow gets no more work.
//!
//! A lane that is preempted during a batch keeps the pages of that batch inaccessible, and every
//! thread that touches them waits. The other lanes do its part in less time.

/// Batches over which a lane is judged. At some 200 us each they are 3 ms of work: losing one time
/// slice among them doubles their cost, which is tolerated.
const WINDOW_BATCHES: usize = 16;
/// The tolerated ratio of a lane's cost to another's. Sharing its CPU fairly with one thread makes
/// the ratio 2, with two of them 3, a node at distance 20 instead of 10 at most 2. Beyond this
/// limit, its CPU belongs to others.
const STRAGGLER_FACTOR: u128 = 4;

/// The recent costs of the lanes of one job. The batches should be of one kind, or distributed as
/// they come: a page of 4 KiB costs up to four times its part of a huge page.
#[derive(Clone, Debug)]
pub struct StragglerDetector {
    lanes: Vec<LaneHistory>,
}

#[derive(Clone, Debug, Default)]
struct LaneHistory {
    is_excluded: bool,
    /// The last batches; a new one replaces the oldest.
    batches: [BatchCost; WINDOW_BATCHES],
    next: usize,
}

/// One batch; zero pages until there was one.
#[derive(Clone, Copy, Debug, Default)]
struct BatchCost {
    pages: u64,
    took_ns: u64,
}

impl StragglerDetector {
    /// Returns lanes that all get work.
    pub fn new(lanes: usize) -> Self {
        Self { lanes: vec![LaneHistory::default(); lanes] }
    }

    /// Reports that a lane finished a batch of `pages` base pages. The lane is given up if it costs
    /// more than four times as much per page as the median of the other active lanes; so the last
    /// one never is. A lane is judged after 16 batches, and until then assumed to be as slow as any
    /// other. Batches without pages are not counted. Does not allocate.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn record_batch(&mut self, lane: usize, pages: u64, took_ns: u64) {
        if pages > 0 {
            self.lanes[lane].push(BatchCost { pages, took_ns });
            self.lanes[lane].is_excluded |= self.is_straggler(lane);
        }
    }

    /// Returns true if a lane gets no more work. This is permanent.
    ///
    /// # Panics
    /// If there is no such lane.
    pub fn is_excluded(&self, lane: usize) -> bool {
        self.lanes[lane].is_excluded
    }

    /// Returns the number of lanes that get work.
    pub fn active_lanes(&self) -> usize {
        self.lanes.iter().filter(|lane| !lane.is_excluded).count()
    }

    /// Returns true if a lane is slower than the median of the others, that is, than more than half
    /// of them. Unknown lanes count as others, because the first to be known are the fast ones.
    fn is_straggler(&self, lane: usize) -> bool {
        let Some(cost) = self.lanes[lane].total() else { return false };
        let is_other =
            |&(index, other): &(usize, &LaneHistory)| index != lane && !other.is_excluded;
        let others = self.lanes.iter().enumerate().filter(is_other).map(|(_, other)| other.total());
        let (others, cheap) = others.fold((0, 0), |(others, cheap), other| {
            (
                others + 1,
                cheap + u32::from(other.is_some_and(|other| cost.is_much_dearer_than(other))),
            )
        });
        cheap * 2 > others
    }
}

impl LaneHistory {
    fn push(&mut self, batch: BatchCost) {
        self.batches[self.next] = batch;
        self.next = (self.next + 1) % WINDOW_BATCHES;
    }

    /// Returns the sum of the last batches, if they are enough to judge.
    fn total(&self) -> Option<BatchCost> {
        let all = self.batches.iter().all(|batch| batch.pages > 0);
        let add = |sum: BatchCost, batch: &BatchCost| BatchCost {
            pages: sum.pages.saturating_add(batch.pages),
            took_ns: sum.took_ns.saturating_add(batch.took_ns),
        };
        all.then(|| self.batches.iter().fold(BatchCost::default(), add))
    }
}

impl BatchCost {
    fn is_much_dearer_than(self, other: Self) -> bool {
        // took / pages > 4 * took / pages, without fractions; a cost of 0 ns is not a measurement.
        let cost = |took_ns, pages| u128::from(took_ns) * u128::from(pages);
        let limit = cost(other.took_ns, self.pages).saturating_mul(STRAGGLER_FACTOR);
        other.took_ns > 0 && cost(self.took_ns, other.pages) > limit
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns lanes with these costs per page in ns, after `rounds` batches of 512 pages each.
    fn after(rounds: usize, page_ns: &[u64]) -> StragglerDetector {
        let mut stragglers = StragglerDetector::new(page_ns.len());
        for _ in 0..rounds {
            for (lane, ns) in page_ns.iter().enumerate() {
                stragglers.record_batch(lane, 512, 512 * ns);
            }
        }
        stragglers
    }

    fn excluded(stragglers: &StragglerDetector) -> Vec<usize> {
        (0..stragglers.lanes.len()).filter(|&lane| stragglers.is_excluded(lane)).collect()
    }

    #[test]
    fn a_straggler_is_excluded_once_it_is_known() {
        assert_eq!(excluded(&after(15, &[300, 1500, 310, 290])), []);
        let stragglers = after(17, &[300, 1500, 310, 290]); // the others are known a little later
        assert_eq!((excluded(&stragglers), stragglers.active_lanes()), (vec![1], 3));
        assert_eq!(excluded(&after(99, &[300, 1200, 310, 290])), [], "four times is forgiven");
        assert_eq!(excluded(&after(99, &[300, 1500])), [1]);
    }

    /// Goal: one fast lane does not make all others late, and two late ones do not excuse each
    /// other.
    #[test]
    fn the_measure_is_what_most_others_do() {
        assert_eq!(excluded(&after(99, &[100, 1000, 1000, 1000])), []);
        assert_eq!(excluded(&after(99, &[100, 1000, 100, 1000, 100])), [1, 3]);
    }

    /// Goal: a lane that is preempted once keeps its work, and is late when that goes on.
    #[test]
    fn one_lost_time_slice_is_forgiven() {
        let mut stragglers = after(16, &[400, 400]);
        stragglers.record_batch(1, 512, 512 * 400 + 4_000_000);
        stragglers.record_batch(1, 512, 512 * 400 + 4_000_000);
        assert_eq!(excluded(&stragglers), [], "16 * 0.2 ms + 8 ms are 11.3, and 4 * 3.3 are 13.1");
        stragglers.record_batch(1, 512, 512 * 400 + 4_000_000);
        assert_eq!(excluded(&stragglers), [1], "15.3 ms");
        for _ in 0..16 {
            stragglers.record_batch(1, 512, 512);
        }
        assert_eq!(excluded(&stragglers), [1], "for good");
    }

    /// Goal: a single lane keeps its work even if it is slow, and empty batches do not count.
    #[test]
    fn the_last_lane_stays() {
        let mut stragglers = after(20, &[100, 1000]);
        assert_eq!(excluded(&stragglers), [1]);
        for _ in 0..20 {
            stragglers.record_batch(0, 1, u64::MAX);
        }
        assert_eq!((excluded(&stragglers), stragglers.active_lanes()), (vec![1], 1));
        let mut idle = after(99, &[100, 100]);
        (0..20).for_each(|_| idle.record_batch(1, 0, 1_000_000));
        assert_eq!(idle.active_lanes(), 2);
    }

    proptest! {
        /// Goal: with any measurements some lane works, and lanes of about one speed all do.
        #[test]
        fn some_lane_always_works(
            lanes in 1..6_usize,
            batches in prop::collection::vec((0..6_usize, 0..600_u64, any::<u64>()), 0..400),
        ) {
            let [mut wild, mut even] = [(); 2].map(|()| StragglerDetector::new(lanes));
            for (lane, pages, took_ns) in batches {
                wild.record_batch(lane % lanes, pages, took_ns);
                even.record_batch(lane % lanes, pages, pages * (100 + took_ns % 300));
                prop_assert!(wild.active_lanes() >= 1);
                prop_assert_eq!(even.active_lanes(), lanes);
            }
        }
    }
}
