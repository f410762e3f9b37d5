//! Choices, all of them from one seed.

use nodeward_policy::sampling::Stream;

/// Choices of one case.
#[derive(Debug)]
pub struct Chance(Stream);

impl Chance {
    /// Those of a seed.
    pub fn new(seed: u64) -> Self {
        Self(Stream::new(seed))
    }

    /// Any number.
    pub fn any(&mut self) -> u64 {
        self.0.next_value()
    }

    /// A number below a count; 0 if that is 0.
    pub fn below(&mut self, count: u64) -> u64 {
        self.any() % count.max(1)
    }

    /// Yes, once in so many times.
    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// One of several, of which there must be one.
    pub fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }

    /// At a bound, next to one, or anything between by its number of bits.
    pub fn within(&mut self, (least, most): (u64, u64)) -> u64 {
        let bits = self.below(u64::from(u64::BITS - (most - least).leading_zeros()) + 1);
        let any = least + self.below(1 << bits.min(63)).min(most - least);
        let near = [least, (least + 1).min(most), most, most.saturating_sub(1).max(least)];
        if self.one_in(3) { self.of(&near) } else { any }
    }

    /// One of several, or none of them.
    pub fn some<T: Clone>(&mut self, all: &[T]) -> Vec<T> {
        all.iter().filter(|_| self.one_in(2)).cloned().collect()
    }
}
