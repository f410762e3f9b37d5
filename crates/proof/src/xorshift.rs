//! Pseudo-random numbers that are good enough to choose pages.

/// A stream of numbers (xorshift64, Marsaglia 2003).
#[derive(Clone, Debug)]
pub struct Xorshift64(u64);

impl Xorshift64 {
    /// A stream for a seed; streams of different seeds differ.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1)
    }

    /// Returns the next number below `bound`, which must be above zero.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 16) % bound as u64) as usize
    }

    /// Returns one of several values; there must be at least one.
    pub fn choose<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every page is chosen sooner or later.
    #[test]
    fn dice_reach_every_page() {
        let mut dice = Xorshift64::new(0);
        let seen: std::collections::BTreeSet<_> = (0..1000).map(|_| dice.below(10)).collect();
        assert_eq!(seen.len(), 10);
    }
}
