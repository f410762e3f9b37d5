//! Times, counted in buckets.

/// Buckets of a histogram: `BUCKETS` of `programs/migrations.bpf.c`.
pub(crate) const BUCKETS: usize = 272;
/// Times below have a bucket each; above there are 8 for each power of two.
const EXACT_NS: u64 = 16;

/// How many times of each length there were. A bucket is an eighth of its power of two wide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeHistogram {
    counts: Vec<u64>,
    max_ns: u64,
}

impl TimeHistogram {
    pub(crate) fn new(counts: &[u64], max_ns: u64) -> Self {
        Self { counts: counts.to_vec(), max_ns }
    }

    /// Returns the number of times.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the longest time in nanoseconds; exact since the beginning, of a period
    /// ([`TimeHistogram::since`]) up to an eighth too long. None if there were no times.
    pub fn max_ns(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.max_ns)
    }

    /// Returns the time in nanoseconds that `ppm` millionths of all times do not exceed, at most a
    /// sixteenth too long or too short. None if there were no times.
    pub fn percentile_ns(&self, ppm: u64) -> Option<u64> {
        let rank = u128::from(self.count()) * u128::from(ppm);
        let rank = rank.div_ceil(1_000_000).max(1);
        let mut seen = 0;
        let at = self.counts.iter().position(|count| {
            seen += u128::from(*count);
            seen >= rank
        })?;
        let (first, last) = (first_ns(at), first_ns(at + 1) - 1);
        Some(first.midpoint(last).min(self.max_ns))
    }

    /// Returns the times that came after `earlier`, an earlier state of the same histogram.
    pub fn since(&self, earlier: &Self) -> Self {
        let pairs = self.counts.iter().zip(&earlier.counts);
        let counts: Vec<u64> = pairs.map(|(now, then)| now.saturating_sub(*then)).collect();
        let longest = counts.iter().rposition(|count| *count > 0).unwrap_or(0);
        let max_ns = match self.max_ns > earlier.max_ns {
            true => self.max_ns,
            false => self.max_ns.min(first_ns(longest + 1) - 1),
        };
        Self { counts, max_ns }
    }
}

/// Returns the shortest time of a bucket.
fn first_ns(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < EXACT_NS {
        return bucket;
    }
    (8 + bucket % 8) << (bucket / 8 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(times: &[(usize, u64)], max_ns: u64) -> TimeHistogram {
        let mut counts = [0; BUCKETS];
        times.iter().for_each(|&(bucket, count)| counts[bucket] = count);
        TimeHistogram::new(&counts, max_ns)
    }

    /// Goal: buckets follow each other without a gap, as the program has them: 16 ns = 2^4 is in
    /// (4 - 2) x 8 = 16, 18 ns in the next one, and 2^36 ns would be the one after the last.
    #[test]
    fn buckets_are_those_of_the_program() {
        assert_eq!([15, 16, 17, 24, 25].map(first_ns), [15, 16, 18, 32, 36]);
        assert!((0..BUCKETS).all(|bucket| first_ns(bucket) < first_ns(bucket + 1)));
        assert_eq!(first_ns(BUCKETS), 1 << 36);
    }

    /// Goal: percentiles are in the middle of the right bucket. Of 100 times 98 are in bucket 24
    /// (32 to 35 ns), one in 25 (36 to 39), one in 40 (128 to 143), where the longest was 129.
    #[test]
    fn percentiles_are_in_the_middle_of_their_bucket() {
        let times = of(&[(24, 98), (25, 1), (40, 1)], 129);
        assert_eq!(times.count(), 100);
        assert_eq!(times.percentile_ns(500_000), Some(33));
        assert_eq!(times.percentile_ns(990_000), Some(37));
        assert_eq!(times.percentile_ns(1_000_000), Some(129), "never above the longest");
        assert_eq!(of(&[], 0).percentile_ns(500_000), None);
        assert_eq!(of(&[], 0).max_ns(), None);
    }

    /// Goal: a period has its own times. The longest is exact where it is the longest of all, else
    /// the end of its bucket.
    #[test]
    fn a_period_has_its_own_times() {
        let before = of(&[(24, 5)], 34);
        let longer = of(&[(24, 6), (40, 1)], 129).since(&before);
        assert_eq!((longer.count(), longer.max_ns()), (2, Some(129)));
        let shorter = of(&[(24, 5), (40, 1), (25, 2)], 129).since(&of(&[(24, 5), (40, 1)], 129));
        assert_eq!((shorter.count(), shorter.max_ns()), (2, Some(39)));
        assert_eq!(before.since(&before).max_ns(), None);
    }
}
