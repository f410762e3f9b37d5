//! A token bucket: the number of bytes that may be moved now. Unused tokens are not saved up beyond
//! one interval.

/// A bucket that fills with time, up to what one interval allows. A folio that is larger than the
/// rest leaves a debt, which the next interval pays.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenBucket {
    bytes: i64,
}

impl TokenBucket {
    /// Adds the tokens for `elapsed_ns`; never more than the rate gives in `interval_ns`.
    pub fn fill(&mut self, bytes_per_s: u64, elapsed_ns: u64, interval_ns: u64) {
        let of = |ns: u64| {
            let bytes = u128::from(bytes_per_s) * u128::from(ns) / 1_000_000_000;
            i64::try_from(bytes).unwrap_or(i64::MAX)
        };
        self.bytes = self.bytes.saturating_add(of(elapsed_ns)).min(of(interval_ns));
    }

    /// Returns the number of bytes that may be moved now.
    pub fn bytes(self) -> u64 {
        u64::try_from(self.bytes).unwrap_or(0)
    }

    /// Subtracts bytes that were moved.
    pub fn spend(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub_unsigned(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// Goal: tokens are not saved up over a pause, and a debt is paid before anything more is
    /// moved.
    #[test]
    fn no_burst_follows_a_pause() {
        let mut bucket = TokenBucket::default();
        bucket.fill(100, 60 * S, S);
        assert_eq!(bucket.bytes(), 100);
        bucket.spend(250); // 100 - 250 = -150
        bucket.fill(100, S, S);
        assert_eq!(bucket.bytes(), 0);
        bucket.fill(100, S, S);
        assert_eq!(bucket.bytes(), 50);
        bucket.fill(u64::MAX, u64::MAX, u64::MAX);
        assert_eq!(bucket.bytes(), i64::MAX.unsigned_abs());
    }
}
