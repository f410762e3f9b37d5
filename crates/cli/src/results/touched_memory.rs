//! Which of several groups of threads touches which memory, by samples of accesses.

use std::collections::{BTreeMap, BTreeSet};

/// Samples that are kept at most, of 16 bytes each. Of more, every second is, then every fourth.
const SAMPLES_MAX: usize = 1 << 20;
/// The smallest block that belongs to one group, in bytes: a huge page.
const BLOCK_BYTES_MIN: u64 = 2 << 20;
/// The largest: half of all addresses that programs have.
const BLOCK_BYTES_MAX: u64 = 1 << 46;
/// Samples for each touched block, on average. Fewer do not tell whose it is.
const SAMPLES_PER_BLOCK: usize = 8;
/// Samples of a group that tell whose memory it touches.
const SAMPLES_MIN: u64 = 16;

/// Samples in the order of their time.
#[derive(Clone, Debug, Default)]
pub struct TouchSamples {
    /// The number of a group, and an address.
    kept: Vec<(usize, u64)>,
    /// One in so many samples is kept: 2 to the power of this.
    thinned: u32,
    /// Samples that are left out before the next one is kept.
    skipped: u64,
}

/// What groups touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TouchedMemory {
    /// Size of the blocks whose owners were found.
    pub block_bytes: u64,
    /// What each group touches, in the order of the groups.
    pub groups: Vec<GroupTouches>,
}

/// What one group touches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupTouches {
    /// Its samples.
    pub samples: u64,
    /// The blocks that it touched in either half of the samples and that have an owner, by the
    /// number of the owner: the group that touched the block most in the other half. What matters
    /// is how much memory that is, not how often it is touched: a few lines that all threads read,
    /// such as settings, have most samples.
    pub owners: BTreeMap<usize, u64>,
}

impl TouchSamples {
    /// Adds a sample of a group.
    pub fn add(&mut self, group: usize, address: u64) {
        if self.skipped > 0 {
            self.skipped -= 1;
            return;
        }
        if self.kept.len() == SAMPLES_MAX {
            let mut keeps = false;
            self.kept.retain(|_| {
                keeps = !keeps;
                keeps
            });
            self.thinned += 1;
        }
        self.kept.push((group, address));
        self.skipped = (1 << self.thinned) - 1;
    }

    /// Finds out what each of so many groups touches. One half of the samples, by their time, tells
    /// whose a block is, and the other half who touches it: with one alone each block of a single
    /// sample would have an owner who is always right.
    pub fn by_group(&self, groups: usize) -> TouchedMemory {
        let block_bytes = self.block_bytes();
        let mut found = vec![GroupTouches::default(); groups];
        let (first, second) = self.kept.split_at(self.kept.len() / 2);
        for (choose, judge) in [(first, second), (second, first)] {
            let owners = owners(choose, block_bytes);
            judge.iter().for_each(|(group, _)| found[*group].samples += 1);
            let touched: BTreeSet<_> =
                judge.iter().map(|(group, address)| (*group, address / block_bytes)).collect();
            for (group, block) in touched {
                if let Some(owner) = owners.get(&block) {
                    *found[group].owners.entry(*owner).or_default() += 1;
                }
            }
        }
        TouchedMemory { block_bytes, groups: found }
    }

    /// Returns the size of blocks with enough samples.
    fn block_bytes(&self) -> u64 {
        let mut bytes = BLOCK_BYTES_MIN;
        while bytes < BLOCK_BYTES_MAX && self.blocks(bytes) * SAMPLES_PER_BLOCK > self.kept.len() {
            bytes *= 2;
        }
        bytes
    }

    fn blocks(&self, block_bytes: u64) -> usize {
        self.kept.iter().map(|(_, address)| address / block_bytes).collect::<BTreeSet<_>>().len()
    }
}

impl GroupTouches {
    /// Returns by owner the share of the memory that it touches, in millionths, the largest first;
    /// `None` if its samples are too few.
    pub fn shares_ppm(&self) -> Option<Vec<(usize, u64)>> {
        let all = self.owners.values().sum::<u64>();
        if self.samples < SAMPLES_MIN || all == 0 {
            return None;
        }
        let share = |(owner, blocks): (&usize, &u64)| (*owner, blocks * 1_000_000 / all);
        let mut shares: Vec<_> = self.owners.iter().map(share).collect();
        shares.sort_by_key(|&(owner, ppm)| (std::cmp::Reverse(ppm), owner));
        Some(shares)
    }
}

/// Returns the group that touched each block most.
fn owners(samples: &[(usize, u64)], block_bytes: u64) -> BTreeMap<u64, usize> {
    let mut counts: BTreeMap<u64, BTreeMap<usize, u64>> = BTreeMap::new();
    for (group, address) in samples {
        *counts.entry(address / block_bytes).or_default().entry(*group).or_default() += 1;
    }
    let most = |groups: BTreeMap<usize, u64>| {
        groups.into_iter().max_by_key(|&(group, count)| (count, std::cmp::Reverse(group)))
    };
    counts.into_iter().filter_map(|(block, groups)| Some((block, most(groups)?.0))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = BLOCK_BYTES_MIN;

    fn samples(all: impl IntoIterator<Item = (usize, u64)>) -> TouchSamples {
        let mut samples = TouchSamples::default();
        all.into_iter().for_each(|(group, address)| samples.add(group, address));
        samples
    }

    /// Goal: of two groups with a block of their own, and one that both touch and 0 most, each
    /// block goes to who touches it most, however often: 0 has both of its own, 1 one of two.
    #[test]
    fn who_touches_a_block_most_owns_it() {
        let round = [(0, 0), (0, 2 * BLOCK), (0, 2 * BLOCK), (1, BLOCK), (1, BLOCK), (1, BLOCK)];
        let round = round.into_iter().chain([(1, 2 * BLOCK)]);
        let touched = samples((0..20).flat_map(|_| round.clone())).by_group(2);
        assert_eq!(touched.block_bytes, BLOCK);
        assert_eq!(touched.groups[0].shares_ppm(), Some(vec![(0, 1_000_000)]));
        assert_eq!(touched.groups[1].shares_ppm(), Some(vec![(0, 500_000), (1, 500_000)]));
        assert_eq!((touched.groups[0].samples, touched.groups[1].samples), (60, 80));
    }

    /// Goal: 15 samples are too few to tell, and so are blocks that were touched in one half alone.
    #[test]
    fn few_samples_tell_nothing() {
        let alone = |count: u64| {
            let touched = samples((0..count).map(|_| (0, 0))).by_group(1);
            touched.groups[0].clone()
        };
        assert_eq!(alone(15).shares_ppm(), None);
        assert_eq!(alone(16).shares_ppm(), Some(vec![(0, 1_000_000)]));
        let halves = samples((0..64).map(|at| (at % 2, at as u64 / 32 * BLOCK * 9))).by_group(2);
        assert_eq!(halves.groups[1].shares_ppm(), None);
    }

    /// Goal: memory that is sampled thinly is compared in larger blocks. Two groups touch each of
    /// 32 blocks four times in all: 128 samples are 8 for each of 16, so these are twice as large.
    /// As both touch all of them alike, all are of the first, by the tie, and the other has none.
    #[test]
    fn thin_samples_make_larger_blocks() {
        let touched = samples((0..128).map(|at| (at % 2, (at as u64 / 2 % 32) * BLOCK)));
        let touched = touched.by_group(2);
        assert_eq!(touched.block_bytes, 2 * BLOCK);
        for group in touched.groups {
            assert_eq!(group.shares_ppm(), Some(vec![(0, 1_000_000)]));
        }
    }

    /// Goal: no samples are no fault; of more than are kept some are, over all of the time.
    #[test]
    fn few_and_many_samples() {
        let none = TouchSamples::default().by_group(1);
        assert_eq!(none.groups, [GroupTouches::default()]);
        // The next one beyond all halves them, and of 9 more every second is kept: 5.
        let many = samples((0..SAMPLES_MAX + 9).map(|_| (0, 0))).by_group(1);
        assert_eq!(many.groups[0].samples, SAMPLES_MAX as u64 / 2 + 5);
    }
}
