//! How long the kernel held runs of pages while it moved them, counted in buckets.

/// Upper bounds of the buckets, in nanoseconds. Budgets that people set are among them: 1 ms is the
/// balancer's default.
const BOUNDS_NS: [u64; 8] =
    [100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 100_000_000];

/// Runs of pages by the time for which they were held. A time is an estimate, the mean of its call:
/// the kernel reports no times within a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HoldTimes {
    /// Runs in each bucket; the last are above all bounds.
    runs: [u64; BOUNDS_NS.len() + 1],
    total_ns: u64,
}

impl HoldTimes {
    /// Adds runs that were held for `hold_ns` nanoseconds each.
    pub fn add(&mut self, hold_ns: u64, runs: u64) {
        let bucket = BOUNDS_NS.partition_point(|&bound_ns| bound_ns < hold_ns);
        self.runs[bucket] += runs;
        self.total_ns = self.total_ns.saturating_add(hold_ns.saturating_mul(runs));
    }

    /// Adds other runs.
    pub fn join(&mut self, other: &Self) {
        self.runs.iter_mut().zip(other.runs).for_each(|(runs, other)| *runs += other);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
    }

    /// Returns each bound in nanoseconds, with the runs that were held for that time or less.
    pub fn up_to_bounds(&self) -> impl Iterator<Item = (u64, u64)> {
        BOUNDS_NS.into_iter().zip(self.runs).scan(0, |below, (bound_ns, runs)| {
            *below += runs;
            Some((bound_ns, *below))
        })
    }

    /// Returns the number of all runs.
    pub fn runs(&self) -> u64 {
        self.runs.iter().sum()
    }

    /// Returns the sum of their times, in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.total_ns
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Goal: a time that equals a bound is within it; what is above all bounds is only in the sum.
    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let mut holds = HoldTimes::default();
        holds.add(1_000_000, 3);
        holds.add(1_000_001, 1);
        holds.add(u64::MAX, 1);
        let within: Vec<u64> = holds.up_to_bounds().map(|(_, runs)| runs).collect();
        assert_eq!(within, [0, 0, 0, 3, 4, 4, 4, 4]);
        assert_eq!((holds.runs(), holds.total_ns()), (5, u64::MAX));
    }

    proptest! {
        /// Goal: each run is in the buckets whose bounds are not below its time, in no other,
        /// whether it is added alone or with others.
        #[test]
        fn buckets_are_cumulative(times in proptest::collection::vec(0_u64..200_000_000, 0..20)) {
            let (mut together, mut joined) = (HoldTimes::default(), HoldTimes::default());
            for &time_ns in &times {
                together.add(time_ns, 1);
                let mut alone = HoldTimes::default();
                alone.add(time_ns, 1);
                joined.join(&alone);
            }
            prop_assert_eq!(together, joined);
            for (bound_ns, runs) in together.up_to_bounds() {
                let expected = times.iter().filter(|&&time_ns| time_ns <= bound_ns).count();
                prop_assert_eq!(runs, expected as u64);
            }
            prop_assert_eq!(together.total_ns(), times.iter().sum::<u64>());
        }
    }
}
