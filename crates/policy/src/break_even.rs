//! The number of lanes that pays off for a job, given the cost of handing work to another thread.
//!
//! The 2017 patches copied each page of 4 KiB with eight threads and were six to eight times slower
//! than with one: waking a thread costs more than such a page. The cost of a wake-up and the copy
//! speed each differ between machines by more than ten times, so both are measured.

/// Costs that are measured when the lanes are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakEven {
    /// The time of a thread for handing work to another one and learning of its end, in ns.
    pub hand_over_ns: u64,
    /// The time of one lane for a base page, in picoseconds. Pages of 4 KiB take some 200 ns, and
    /// whole nanoseconds would lose up to a percent of it.
    pub page_ps: u64,
}

impl BreakEven {
    /// Returns the costs from the time of a hand-over and the time `took_ns` of one lane for
    /// `pages` base pages. For zero pages nothing is known, and one lane does everything.
    pub fn measured(hand_over_ns: u64, pages: u64, took_ns: u64) -> Self {
        let page_ps = took_ns.saturating_mul(1000).checked_div(pages).unwrap_or(0);
        Self { hand_over_ns, page_ps }
    }

    /// Returns the number of lanes, at most `lanes_max`, that finishes a job of `pages` base pages
    /// first. The thread that hands out is one of them, so the result is at least 1.
    ///
    /// With `n` lanes a job takes `work / n` and one hand-over for each lane but the first. One
    /// more lane pays off while `work / (n - 1) - work / n` is more than a hand-over, that is while
    /// `work` is more than `n * (n - 1)` of them.
    pub fn lanes_for(&self, pages: u64, lanes_max: u32) -> u32 {
        let work_ps = u128::from(pages) * u128::from(self.page_ps);
        let hand_over_ps = u128::from(self.hand_over_ns) * 1000;
        let pays = |&n: &u32| {
            let hand_overs = u128::from(n) * u128::from(n - 1);
            u64::from(n) <= pages && work_ps > hand_overs * hand_over_ps
        };
        (2..=lanes_max).take_while(pays).last().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Goal: the case that motivates this. A page of 4 KiB at 3 GB/s takes 1.3 us, a work item of
    /// the kernel about 2 us to queue and to wait for.
    #[test]
    fn one_small_page_is_copied_by_one_and_a_huge_page_by_many() {
        let seed = BreakEven { hand_over_ns: 2000, page_ps: 1_300_000 };
        assert_eq!(seed.lanes_for(1, 8), 1);
        assert_eq!(seed.lanes_for(3, 8), 1, "3.9 us are less than 2 * 1 hand-overs of 2 us");
        assert_eq!(seed.lanes_for(4, 8), 2, "5.2 us are more");
        assert_eq!(seed.lanes_for(512, 8), 8);
        assert_eq!(seed.lanes_for(512, 64), 18, "665 us: 18 * 17 * 2 = 612, 19 * 18 * 2 = 684");
    }

    /// Goal: the costs come from measurements, also from extreme ones.
    #[test]
    fn what_was_measured_counts() {
        let fast = BreakEven::measured(5000, 3, 1000);
        assert_eq!(fast, BreakEven { hand_over_ns: 5000, page_ps: 333_333 });
        assert_eq!(fast.lanes_for(30, 4), 1, "30 pages take 10 us: just break-even");
        assert_eq!(fast.lanes_for(31, 4), 2);
        assert_eq!(BreakEven::measured(5000, 0, 1000).lanes_for(1 << 40, 8), 1);
        assert_eq!(BreakEven::measured(0, 1, 1).lanes_for(5, 8), 5, "a lane needs a page");
        assert_eq!(fast.lanes_for(u64::MAX, 8), 8);
        assert_eq!(fast.lanes_for(1 << 40, 0), 1, "somebody must do it");
    }

    proptest! {
        /// Goal: no other number of lanes finishes earlier.
        #[test]
        fn the_answer_is_the_fastest(
            hand_over_ns in 0..100_000_u64, page_ps in 0..5_000_000_u64,
            pages in 1..100_000_u64, lanes_max in 1..64_u32,
        ) {
            let break_even = BreakEven { hand_over_ns, page_ps };
            let best = break_even.lanes_for(pages, lanes_max);
            prop_assert!((1..=lanes_max).contains(&best));
            // Times of `n` and `m` lanes, both multiplied by n * m to stay integers.
            let time = |n: u32, m: u32| {
                let [n, m] = [n, m].map(u128::from);
                let hand_overs_ps = (n - 1) * u128::from(hand_over_ns) * 1000;
                u128::from(pages) * u128::from(page_ps) * m + hand_overs_ps * n * m
            };
            for other in (1..=lanes_max).filter(|&other| u64::from(other) <= pages) {
                prop_assert!(time(best, other) <= time(other, best), "{best}, not {other}");
            }
        }
    }
}
