//! Random choices, all derived from one seed.

use nodeward_policy::sampling::SplitMix64;

/// The random choices of one case.
#[derive(Clone, Debug)]
pub struct SeededRng(SplitMix64);

impl SeededRng {
    /// Creates the choices of a seed.
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// Returns other choices, which these and a number determine.
    #[must_use]
    pub fn apart(mut self, by: u64) -> Self {
        Self::new(self.next_u64() ^ by)
    }

    /// Returns any number.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below a count; 0 if the count is 0.
    pub fn below(&mut self, count: u64) -> u64 {
        self.next_u64() % count.max(1)
    }

    /// Returns `true` once in `count` times.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// Returns one of several items. There must be at least one.
    pub fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }

    /// Returns a bound, a neighbour of one, or a number between whose number of bits is uniform.
    pub fn near_bounds(&mut self, (least, most): (u64, u64)) -> u64 {
        let bits = self.below(u64::from(u64::BITS - (most - least).leading_zeros()) + 1);
        let any = least + self.below(1 << bits.min(63)).min(most - least);
        let near = [least, (least + 1).min(most), most, most.saturating_sub(1).max(least)];
        if self.one_in(3) { self.pick(&near) } else { any }
    }

    /// Returns a random subset, which may be empty.
    pub fn subset<T: Clone>(&mut self, all: &[T]) -> Vec<T> {
        all.iter().filter(|_| self.one_in(2)).cloned().collect()
    }
}
