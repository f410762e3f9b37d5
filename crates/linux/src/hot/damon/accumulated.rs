//! Adds up several snapshots of DAMON, whose regions differ.

use std::collections::BTreeMap;

use nodeward_model::Range;

use crate::hot::RegionAccess;

/// A region of one snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamonRegion {
    /// Its addresses.
    pub range: Range,
    /// The number of samples in which it was accessed.
    pub accesses: u64,
}

/// The change of the counts at an address, wrapping: each region adds its counts at its start and
/// subtracts them at its end.
#[derive(Clone, Copy, Debug, Default)]
struct CountDelta {
    accesses: u64,
    samples: u64,
}

/// The sum of the snapshots so far.
#[derive(Debug, Default)]
pub struct AccumulatedRegions(BTreeMap<u64, CountDelta>);

impl AccumulatedRegions {
    /// Adds a snapshot. Each of its regions has `samples` samples.
    pub fn add(&mut self, regions: &[DamonRegion], samples: u64) {
        for region in regions {
            // The kernel smooths its counts, so one may exceed the samples.
            let accesses = region.accesses.min(samples);
            let start = self.0.entry(region.range.start).or_default();
            start.accesses = start.accesses.wrapping_add(accesses);
            start.samples = start.samples.wrapping_add(samples);
            let end = self.0.entry(region.range.end).or_default();
            end.accesses = end.accesses.wrapping_sub(accesses);
            end.samples = end.samples.wrapping_sub(samples);
        }
    }

    /// Returns the accessed parts in ascending order; adjacent parts with equal counts are joined.
    pub fn regions(&self) -> Vec<RegionAccess> {
        let mut parts: Vec<RegionAccess> = Vec::new();
        let mut now = CountDelta::default();
        for ((&start, step), &end) in self.0.iter().zip(self.0.keys().skip(1)) {
            now.accesses = now.accesses.wrapping_add(step.accesses);
            now.samples = now.samples.wrapping_add(step.samples);
            let CountDelta { accesses, samples } = now;
            match parts.last_mut() {
                Some(last) if continues(last, start, now) => last.range.end = end,
                _ if accesses == 0 => {}
                _ => parts.push(RegionAccess { range: Range::new(start, end), accesses, samples }),
            }
        }
        parts
    }
}

/// Returns true if a part that begins at `start` continues the part before it.
fn continues(last: &RegionAccess, start: u64, now: CountDelta) -> bool {
    last.range.end == start && (last.accesses, last.samples) == (now.accesses, now.samples)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn region(start: u64, end: u64, accesses: u64) -> DamonRegion {
        DamonRegion { range: Range::new(start, end), accesses }
    }

    fn part(start: u64, end: u64, accesses: u64, samples: u64) -> RegionAccess {
        RegionAccess { range: Range::new(start, end), accesses, samples }
    }

    /// Goal: overlapping regions are cut and their counts added; parts without accesses are left
    /// out; adjacent parts with equal counts are joined.
    #[test]
    fn looks_add_up() {
        let mut looks = AccumulatedRegions::default();
        looks.add(&[region(0, 10, 5), region(10, 20, 0), region(20, 30, 1)], 20);
        looks.add(&[region(0, 15, 2), region(15, 30, 0)], 20);
        let expected = [
            part(0, 10, 7, 40),  // 5 + 2
            part(10, 15, 2, 40), // 0 + 2
            part(20, 30, 1, 40), // 1 + 0; 15 to 20 has none
        ];
        assert_eq!(looks.regions(), expected);
        let mut halves = AccumulatedRegions::default();
        halves.add(&[region(0, 10, 3), region(10, 20, 3)], 20);
        assert_eq!(halves.regions(), [part(0, 20, 3, 20)]);
    }

    /// Goal: a part that only one snapshot covers has the samples of that snapshot; a count never
    /// exceeds its samples.
    #[test]
    fn samples_are_those_that_covered_a_part() {
        let mut looks = AccumulatedRegions::default();
        looks.add(&[region(0, 10, 21)], 20);
        looks.add(&[region(5, 10, 4), region(30, 40, 4)], 20);
        let expected = [part(0, 5, 20, 20), part(5, 10, 24, 40), part(30, 40, 4, 20)];
        assert_eq!(looks.regions(), expected);
        assert_eq!(AccumulatedRegions::default().regions(), []);
    }

    proptest! {
        /// Goal: the sum at each address is that of the regions that contain it, for any snapshots.
        #[test]
        fn each_address_gets_its_sum(
            looks in proptest::collection::vec(
                proptest::collection::vec((0..64_u64, 1..64_u64, 0..20_u64), 0..8), 0..6),
        ) {
            let mut sum = AccumulatedRegions::default();
            let regions: Vec<DamonRegion> =
                looks.iter().flatten().map(|&(at, len, n)| region(at, at + len, n)).collect();
            looks.iter().for_each(|look| {
                let look: Vec<DamonRegion> =
                    look.iter().map(|&(at, len, n)| region(at, at + len, n)).collect();
                sum.add(&look, 20);
            });
            let parts = sum.regions();
            for at in 0..128 {
                let holds = |range: Range| range.start <= at && at < range.end;
                let all: Vec<_> = regions.iter().filter(|region| holds(region.range)).collect();
                let expected: u64 = all.iter().map(|region| region.accesses).sum();
                let found = parts.iter().find(|part| holds(part.range));
                prop_assert_eq!(found.map_or(0, |part| part.accesses), expected);
                if let Some(part) = found {
                    prop_assert_eq!(part.samples, 20 * all.len() as u64);
                }
            }
            prop_assert!(parts.windows(2).all(|pair| pair[0].range.end <= pair[1].range.start));
        }
    }
}
