//! Bytes that may be moved: so many a second, and not saved up.

/// Grows with time, up to what one interval allows. A folio that is larger than what is left makes
/// a debt, which the next interval pays.
#[derive(Clone, Copy, Debug, Default)]
pub struct Purse {
    bytes: i64,
}

impl Purse {
    /// Adds what this time allows; never more than the rate gives in `interval_ns`.
    pub fn fill(&mut self, bytes_per_s: u64, elapsed_ns: u64, interval_ns: u64) {
        let of = |ns: u64| {
            let bytes = u128::from(bytes_per_s) * u128::from(ns) / 1_000_000_000;
            i64::try_from(bytes).unwrap_or(i64::MAX)
        };
        self.bytes = self.bytes.saturating_add(of(elapsed_ns)).min(of(interval_ns));
    }

    /// Bytes that may be moved now.
    pub fn bytes(self) -> u64 {
        u64::try_from(self.bytes).unwrap_or(0)
    }

    /// Takes off what was moved.
    pub fn spend(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub_unsigned(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// Goal: a pause is not saved up, and a debt is paid before anything more is moved.
    #[test]
    fn no_burst_follows_a_pause() {
        let mut purse = Purse::default();
        purse.fill(100, 60 * S, S);
        assert_eq!(purse.bytes(), 100);
        purse.spend(250); // 100 - 250 = -150
        purse.fill(100, S, S);
        assert_eq!(purse.bytes(), 0);
        purse.fill(100, S, S);
        assert_eq!(purse.bytes(), 50);
        purse.fill(u64::MAX, u64::MAX, u64::MAX);
        assert_eq!(purse.bytes(), i64::MAX.unsigned_abs());
    }
}
