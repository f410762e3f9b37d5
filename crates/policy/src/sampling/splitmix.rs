//! Pseudo-random numbers from a seed.

/// A stream of 64-bit values from a seed: SplitMix64, the generator that Steele, Lea and Flood
/// published in 2014 (a counter with the golden ratio as its step, and a mixing function).
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// Returns the stream of a seed; equal seeds give equal streams.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next value.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The numbers below a limit in shuffled order, without a list of them: a Feistel network over the
/// smallest even number of bits that holds the limit, applied again until the value is below the
/// limit (fewer than four steps on average).
#[derive(Clone, Debug)]
pub struct Shuffle {
    limit: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Shuffle {
    /// Returns a shuffle of `0..limit`, with keys from the stream.
    pub fn new(limit: u64, stream: &mut SplitMix64) -> Self {
        let bits = u64::BITS - limit.saturating_sub(1).leading_zeros();
        let keys = std::array::from_fn(|_| stream.next_u64());
        Self { limit, half_bits: bits.div_ceil(2).max(1), keys }
    }

    /// Returns the number at a position of the shuffled order; `place` must be below the limit.
    pub fn at(&self, place: u64) -> u64 {
        let mut value = self.permute(place);
        while value >= self.limit {
            value = self.permute(value);
        }
        value
    }

    fn permute(&self, value: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_visits_every_number_once() {
        for limit in [1, 2, 3, 5, 64, 100, 1000, 4097] {
            let shuffle = Shuffle::new(limit, &mut SplitMix64::new(limit));
            let mut seen: Vec<u64> = (0..limit).map(|place| shuffle.at(place)).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..limit).collect::<Vec<_>>(), "limit {limit}");
        }
    }

    #[test]
    fn the_seed_decides_the_stream() {
        // The first value of SplitMix64 from seed 0, as published with the generator.
        assert_eq!(SplitMix64::new(0).next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_ne!(SplitMix64::new(1).next_u64(), SplitMix64::new(2).next_u64());
    }
}
