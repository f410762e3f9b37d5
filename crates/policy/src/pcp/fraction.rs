//! The one setting that a kernel without a tuner has for all its page lists
//! (`vm.percpu_pagelist_high_fraction`), chosen from the depths of all CPUs.

/// The kernel refuses smaller fractions (`MIN_PERCPU_PAGELIST_HIGH_FRACTION`), except 0, which is
/// its default length.
pub const KERNEL_FRACTION_MIN: u32 = 8;

/// Lists of a length go back to the default for so many periods after memory was short.
const PERIODS_AFTER_SHORTAGE: u32 = 5;

/// A zone, as the kernel divides it into lists (`zone_highsize`, Linux 5.14 and newer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitZone {
    /// Pages of the zone.
    pub managed_pages: u64,
    /// CPUs of its node; of a node without CPUs all that are online. 0 counts as 1.
    pub cpus: u32,
    /// The kernel's batch: no list is shorter than four.
    pub batch_pages: u64,
}

impl SplitZone {
    /// Returns the length of each of its lists with this fraction, which is not 0.
    pub fn high(&self, fraction: u32) -> u64 {
        let share = self.managed_pages / u64::from(fraction.max(1)) / self.cpus();
        share.max(self.batch_pages.saturating_mul(4))
    }

    /// Returns the largest fraction that makes its lists at least this long; 0 if none does.
    fn fraction(&self, high: u64) -> u32 {
        let fraction = self.managed_pages / self.cpus().saturating_mul(high.max(1)).max(1);
        u32::try_from(fraction).unwrap_or(u32::MAX)
    }

    fn cpus(&self) -> u64 {
        u64::from(self.cpus.max(1))
    }
}

/// What a CPU could use of its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListDemand {
    /// The length that its depths ask for.
    pub wanted_pages: u64,
    /// The length that it has where nobody chooses one.
    pub default_pages: u64,
    /// The zone from which it takes most.
    pub zone: SplitZone,
}

/// The fractions that may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FractionBounds {
    /// The smallest, which makes the longest lists: they hold 1/min of a zone at most.
    pub min: u32,
    /// The largest.
    pub max: u32,
}

impl FractionBounds {
    /// The usual bounds.
    pub const USUAL: Self = Self { min: 32, max: 1000 };
}

/// Returns the fraction with which every list is as long as it is wanted, as far as the bounds
/// allow; `None` if the default does as well.
pub fn fraction_for(demands: &[ListDemand], bounds: FractionBounds) -> Option<u32> {
    let for_one = |demand: &ListDemand| {
        if demand.wanted_pages <= demand.default_pages {
            return None;
        }
        let fraction = demand.zone.fraction(demand.wanted_pages).min(bounds.max).max(bounds.min);
        (demand.zone.high(fraction) > demand.default_pages).then_some(fraction)
    };
    demands.iter().filter_map(for_one).min()
}

/// Estimates how many of a CPU's visits a list of `high` pages in place of one of `now` saves: each
/// swing of this depth has as many fewer pages to fetch and to give back as the list is longer.
pub fn saved_visits(visits: u64, depth: u64, now: u64, high: u64) -> u64 {
    let (longer, lacking) = (high.saturating_sub(now), depth.saturating_sub(now));
    let saved = u128::from(visits) * u128::from(longer.min(lacking)) / u128::from(lacking.max(1));
    u64::try_from(saved).unwrap_or(u64::MAX)
}

/// Decides when to change the setting: lists become longer as soon as that is wanted, and shorter
/// when they are too long by more than a quarter. While memory is short the default holds.
#[derive(Clone, Debug, Default)]
pub struct FractionTuner {
    chosen: Option<u32>,
    periods_short: u32,
}

impl FractionTuner {
    /// Takes what [`fraction_for`] found for a period, and whether memory was short in it. Returns
    /// the fraction to set; `None` is the default.
    pub fn choose(&mut self, wanted: Option<u32>, is_short: bool) -> Option<u32> {
        self.periods_short = match is_short {
            true => PERIODS_AFTER_SHORTAGE,
            false => self.periods_short.saturating_sub(1),
        };
        self.chosen = match (self.chosen, wanted) {
            _ if self.periods_short > 0 => None,
            (Some(chosen), Some(wanted)) if is_enough(chosen, wanted) => Some(chosen),
            (_, wanted) => wanted,
        };
        self.chosen
    }

    /// Returns whether the default holds because memory was short lately.
    pub fn is_held_back(&self) -> bool {
        self.periods_short > 0
    }
}

/// Returns whether lists are as long as they are wanted, and by no more than a quarter too long.
fn is_enough(chosen: u32, wanted: u32) -> bool {
    wanted.checked_sub(chosen).is_some_and(|less| u64::from(less) * 4 <= u64::from(chosen))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUNDS: FractionBounds = FractionBounds { min: 8, max: 1000 };
    /// The larger node of the lab: 245,726 pages, one CPU.
    const ZONE: SplitZone = SplitZone { managed_pages: 245_726, cpus: 1, batch_pages: 63 };

    fn demand(wanted_pages: u64, default_pages: u64) -> ListDemand {
        ListDemand { wanted_pages, default_pages, zone: ZONE }
    }

    /// Goal: the lengths are those that the kernel computes.
    #[test]
    fn the_kernel_divides_so() {
        assert_eq!(ZONE.high(8), 30_715); // 245726 / 8
        assert_eq!(SplitZone { cpus: 4, ..ZONE }.high(8), 7_678); // 30715 / 4
        assert_eq!(ZONE.high(100_000), 252, "four batches of 63 at least");
        assert_eq!(SplitZone { cpus: 0, ..ZONE }.high(8), 30_715);
    }

    /// Goal: 64 MiB on a CPU (16,384 pages) take a fraction of 14: 245726 / 16384 = 14.998, and
    /// with 15 the list would have 16,381.
    #[test]
    fn a_list_is_as_long_as_it_is_wanted() {
        assert_eq!(fraction_for(&[demand(16_384, 6852)], BOUNDS), Some(14));
        assert!(ZONE.high(14) >= 16_384 && ZONE.high(15) < 16_384);
    }

    /// Goal: the longest wish decides, within the bounds; who wants no more than it has asks for
    /// nothing.
    #[test]
    fn the_longest_wish_decides() {
        let both = [demand(16_384, 6852), demand(8_000, 6852), demand(6852, 6852)];
        assert_eq!(fraction_for(&both, BOUNDS), Some(14));
        assert_eq!(fraction_for(&both[1..], BOUNDS), Some(30)); // 245726 / 8000 = 30.7
        assert_eq!(fraction_for(&both[2..], BOUNDS), None);
        assert_eq!(fraction_for(&[demand(1_000_000, 6852)], BOUNDS), Some(8));
        assert_eq!(fraction_for(&[], BOUNDS), None);
    }

    /// Goal: a bound that would make lists shorter than they are is no reason to set anything.
    #[test]
    fn lists_are_never_made_shorter() {
        let narrow = FractionBounds { min: 64, max: 1000 };
        assert_eq!(ZONE.high(64), 3_839);
        assert_eq!(fraction_for(&[demand(16_384, 6852)], narrow), None);
        assert_eq!(fraction_for(&[demand(16_384, 378)], narrow), Some(64));
    }

    /// Goal: a list as long as the depth saves all visits, half the way half of them, and one that
    /// is long enough already none.
    #[test]
    fn visits_are_saved_as_far_as_the_list_is_longer() {
        assert_eq!(saved_visits(1000, 16_384, 6852, 16_384), 1000);
        assert_eq!(saved_visits(1000, 16_384, 6852, 11_618), 500); // 4766 of 9532 pages
        assert_eq!(saved_visits(1000, 16_384, 6852, 6852), 0);
        assert_eq!(saved_visits(1000, 5_000, 6852, 16_384), 0);
        assert_eq!(saved_visits(u64::MAX, u64::MAX, 0, u64::MAX), u64::MAX);
    }

    /// Goal: lists that are too long by a quarter stay; longer lists come at once.
    #[test]
    fn lists_are_shortened_late() {
        let mut tuner = FractionTuner::default();
        let wishes = [None, Some(100), Some(125), Some(99), Some(124), Some(123), None, Some(94)];
        let chosen = wishes.map(|wanted| tuner.choose(wanted, false));
        // From 100 a quarter reaches 125; from 99 it is 24.75, and reaches 123.
        let expected = [None, Some(100), Some(100), Some(99), Some(124), Some(123), None, Some(94)];
        assert_eq!(chosen, expected);
    }

    /// Goal: while memory is short, and four periods more, the default holds.
    #[test]
    fn shortage_comes_first() {
        let mut tuner = FractionTuner::default();
        assert_eq!(tuner.choose(Some(14), false), Some(14));
        assert_eq!(tuner.choose(Some(14), true), None);
        let after = [(); 4].map(|()| (tuner.choose(Some(14), false), tuner.is_held_back()));
        assert_eq!(after, [(None, true); 4]);
        assert_eq!((tuner.choose(Some(14), false), tuner.is_held_back()), (Some(14), false));
    }

    proptest! {
        /// Goal: what is chosen is within the bounds, and lengthens some list that wants it.
        #[test]
        fn a_choice_is_within_its_bounds(
            demands in proptest::collection::vec(
                (any::<u64>(), 0..100_000_u64, any::<u64>(), 0..9_u32),
                0..9,
            ),
            min in 8..1000_u32, more in 0..1000_u32,
        ) {
            let bounds = FractionBounds { min, max: min + more };
            let demands: Vec<_> = demands.into_iter().map(|(wanted, default_pages, managed, cpus)| {
                let zone = SplitZone { managed_pages: managed, cpus, batch_pages: 63 };
                ListDemand { wanted_pages: wanted, default_pages, zone }
            }).collect();
            if let Some(fraction) = fraction_for(&demands, bounds) {
                prop_assert!((bounds.min..=bounds.max).contains(&fraction));
                let is_longer = |d: &ListDemand| d.zone.high(fraction) > d.default_pages;
                prop_assert!(demands.iter().any(is_longer));
            }
        }
    }
}
