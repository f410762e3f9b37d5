//! Chooses the cheapest method to move a batch: to pages that earlier migrations left behind, to
//! fresh ones, or by the kernel's own migration.
//!
//! Recycled pages (`MoveMethod::Recycled`) save their allocation. But mapping one takes it out of
//! its slot, and before Linux 6.18 UFFDIO_MOVE makes every CPU of the process flush its TLB for
//! each page. The kernel's migration flushes once for a batch, though it does more for each page.
//! The cheapest method depends on the kernel, the machine and the number of CPUs that the program
//! runs on, so it is measured while pages move.

/// Batches in a row by which a method is tried: a single one may have been preempted.
const TRIAL_BATCHES: usize = 3;
/// Batches after which an unused method is tried again if it costs as much as the usual one. One
/// that costs `n` times as much is tried `n` times as rarely: each unused method takes 3 % of the
/// time.
const RETRIAL_BATCHES: u64 = 96;
/// Batches before an unknown method is tried: the first ones of a lane find caches and page tables
/// cold.
const FIRST_TRIAL_BATCHES: u64 = 4;
/// Limit on the interval between tries, in units of `RETRIAL_BATCHES`; without it one bad
/// measurement would count for ever.
const RETRIAL_FACTOR_MAX: u64 = 16;
/// Smaller batches measure the cost of calls and not of pages.
const PAGES_MIN: u64 = 32;
/// The cost of a method is the median of its last batches: lanes are preempted, and one such batch
/// takes ten times as long as the others.
const SAMPLES: usize = 5;
/// Recycled pages are given up only if they cost a fifth more: they also save memory bandwidth that
/// is not measured here, for zeroing pages and freeing them.
const RECYCLED_TO_FRESH_MAX: (u64, u64) = (6, 5);
/// The kernel's method is preferred only if the own one costs half more. A real advantage of the
/// kernel is a factor of two and more; less is noise, and the kernel's moves leave no pages to
/// recycle.
const OURS_TO_KERNEL_MAX: (u64, u64) = (3, 2);

/// A method to move a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveMethod {
    /// Own copy, to pages of earlier migrations.
    Recycled,
    /// Own copy, to fresh pages.
    Fresh,
    /// The kernel's migration.
    Kernel,
}

/// The methods that a batch can use. Fresh pages always are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AvailableMethods {
    /// There are recycled pages.
    pub recycled: bool,
    /// The kernel may be used.
    pub kernel: bool,
}

/// The cost of pages by each method, learned from batches.
#[derive(Clone, Copy, Debug, Default)]
pub struct MethodCosts {
    recycled: Option<MethodCost>,
    fresh: Option<MethodCost>,
    kernel: Option<MethodCost>,
    batches: u64,
}

/// The cost of one method.
#[derive(Clone, Copy, Debug)]
struct MethodCost {
    /// Picoseconds per page of the last batches; the next one replaces the oldest.
    samples: [u64; SAMPLES],
    batches: usize,
    /// The number of batches, of all methods, before the last one by this method.
    last_batch: u64,
}

impl MethodCosts {
    /// Learns from a batch of `pages` base pages, if they are enough to measure.
    pub fn learn(&mut self, way: MoveMethod, pages: u64, took_ns: u64) {
        if pages >= PAGES_MIN {
            self.record_sample(way, took_ns.saturating_mul(1000) / pages);
        }
    }

    /// Learns that a method failed.
    pub fn record_failure(&mut self, way: MoveMethod) {
        self.record_sample(way, u64::MAX);
    }

    /// Returns the method for the next batch: the cheapest, or one that is due to be tried again.
    pub fn choose(&self, offer: AvailableMethods) -> MoveMethod {
        let ours = match offer.recycled
            && !self.is_worse(MoveMethod::Recycled, MoveMethod::Fresh, RECYCLED_TO_FRESH_MAX)
        {
            true => MoveMethod::Recycled,
            false => MoveMethod::Fresh,
        };
        let usual =
            match offer.kernel && self.is_worse(ours, MoveMethod::Kernel, OURS_TO_KERNEL_MAX) {
                true => MoveMethod::Kernel,
                false => ours,
            };
        let others = [
            (MoveMethod::Kernel, offer.kernel),
            (MoveMethod::Fresh, true),
            (MoveMethod::Recycled, offer.recycled),
        ];
        let mut others = others.into_iter().filter(|&(way, offered)| offered && way != usual);
        others.find(|&(way, _)| self.is_retrial_due(way, usual)).map_or(usual, |(way, _)| way)
    }

    fn cost(&self, way: MoveMethod) -> Option<MethodCost> {
        match way {
            MoveMethod::Recycled => self.recycled,
            MoveMethod::Fresh => self.fresh,
            MoveMethod::Kernel => self.kernel,
        }
    }

    fn record_sample(&mut self, way: MoveMethod, page_ps: u64) {
        let known = match way {
            MoveMethod::Recycled => &mut self.recycled,
            MoveMethod::Fresh => &mut self.fresh,
            MoveMethod::Kernel => &mut self.kernel,
        };
        let now = self.batches;
        self.batches += 1;
        // Measurements from long ago do not count.
        let mut cost = known
            .filter(|cost| now - cost.last_batch < RETRIAL_BATCHES)
            .unwrap_or(MethodCost { samples: [0; SAMPLES], batches: 0, last_batch: now });
        cost.samples[cost.batches % SAMPLES] = page_ps;
        cost.batches += 1;
        *known = Some(MethodCost { last_batch: now, ..cost });
    }

    /// Returns true if a method is known to cost more than another one by the given factor.
    fn is_worse(&self, way: MoveMethod, than: MoveMethod, (more, less): (u64, u64)) -> bool {
        let than = self.cost(than).filter(|than| than.batches >= TRIAL_BATCHES);
        let costs = self.cost(way).zip(than);
        costs.is_some_and(|(way, than)| way.page_ps() / more > than.page_ps() / less)
    }

    fn is_retrial_due(&self, way: MoveMethod, usual: MoveMethod) -> bool {
        match (self.cost(way), self.cost(usual)) {
            (_, None) => false,
            (None, _) => self.batches >= FIRST_TRIAL_BATCHES,
            (Some(way), _) if way.batches < TRIAL_BATCHES => true,
            (Some(way), Some(usual)) => {
                let times_as_dear =
                    (way.page_ps() / usual.page_ps().max(1)).clamp(1, RETRIAL_FACTOR_MAX);
                self.batches - way.last_batch > RETRIAL_BATCHES * times_as_dear
            }
        }
    }
}

impl MethodCost {
    /// Returns the median of the last batches, of two the smaller.
    fn page_ps(&self) -> u64 {
        let known = self.batches.min(SAMPLES);
        let mut samples = self.samples;
        samples[..known].sort_unstable();
        samples[(known - 1) / 2]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: AvailableMethods = AvailableMethods { recycled: true, kernel: true };
    const OURS: AvailableMethods = AvailableMethods { recycled: true, kernel: false };

    /// The cost of a page in ns: recycled, fresh and by the kernel.
    type CostsPerPage = [u64; 3];

    /// Moves batches at these costs; returns the number of batches by each method.
    fn moved(
        costs: &mut MethodCosts,
        offer: AvailableMethods,
        prices: CostsPerPage,
        batches: u32,
    ) -> [u32; 3] {
        let mut ways = [0; 3];
        for _ in 0..batches {
            let way = costs.choose(offer);
            ways[way as usize] += 1;
            costs.learn(way, 512, 512 * prices[way as usize]);
        }
        ways
    }

    fn from_the_start(offer: AvailableMethods, prices: CostsPerPage, batches: u32) -> [u32; 3] {
        moved(&mut MethodCosts::default(), offer, prices, batches)
    }

    /// Goal: the usual method is the cheapest. The others are tried after four batches, three in a
    /// row, and then with 96 between if they cost less than twice as much, 192 below three times.
    #[test]
    fn the_cheapest_method_is_used() {
        let [kept, fresh, kernel] = from_the_start(ALL, [200, 400, 350], 1000);
        assert_eq!((fresh, kernel), (3 * (1 + 990 / 195), 3 * (1 + 990 / 99)));
        assert_eq!(kept, 1000 - fresh - kernel);
        let [_, fresh, kernel] = from_the_start(ALL, [400, 400, 400], 1000);
        assert_eq!((fresh, kernel), (3 * (1 + 990 / 99), 3 * (1 + 990 / 99)), "as cheap");
        let [kept, fresh, kernel] = from_the_start(ALL, [470, 480, 400], 1000);
        assert!(kept > 930 && fresh < 40 && kernel < 40, "a little cheaper is no reason");
    }

    /// Goal: where flushes are expensive the kernel moves pages after its first try, which is from
    /// the fifth batch on; where only mapping recycled pages is expensive, pages are fresh.
    #[test]
    fn dear_flushes_are_left_to_the_kernel() {
        let [kept, fresh, kernel] = from_the_start(ALL, [4000, 2000, 500], 1000);
        assert_eq!(kept + fresh + kernel, 1000);
        // 4 before anything else, 3 when they are tried: after 8 * 96 recycled, after 4 * 96 fresh.
        assert_eq!((kept, fresh), (4 + 3, 3 * (1 + 990 / (4 * 96))));
        // Ten times the cost: the first 4, and 3 after 960.
        assert_eq!(from_the_start(OURS, [4000, 400, 1], 1000), [4 + 3, 1000 - 7, 0]);
    }

    /// Goal: a method that is not offered is not chosen, whatever its cost.
    #[test]
    fn only_what_is_offered_is_chosen() {
        let ours = from_the_start(OURS, [4000, 4000, 1], 100);
        assert_eq!(ours[MoveMethod::Kernel as usize], 0);
        let fresh = AvailableMethods { recycled: false, kernel: false };
        assert_eq!(from_the_start(fresh, [1, 4000, 1], 100), [0, 100, 0]);
    }

    /// Goal: a method that fails is left, and used again when it works; until then the longest time
    /// between two tries passes.
    #[test]
    fn what_is_refused_is_rarely_tried() {
        let mut costs = MethodCosts::default();
        moved(&mut costs, OURS, [400, 400, 1], 10);
        assert_eq!(costs.choose(ALL), MoveMethod::Kernel);
        (0..TRIAL_BATCHES).for_each(|_| costs.record_failure(MoveMethod::Kernel));
        let rarest = u32::try_from(RETRIAL_BATCHES * RETRIAL_FACTOR_MAX).unwrap();
        assert_eq!(moved(&mut costs, ALL, [400, 400, 100], rarest)[MoveMethod::Kernel as usize], 0);
        assert!(moved(&mut costs, ALL, [400, 400, 100], 100)[MoveMethod::Kernel as usize] > 80);
    }

    /// Goal: a lane that is preempted now and then does not change its method for that.
    #[test]
    fn batches_that_were_held_up_do_not_count() {
        let mut costs = MethodCosts::default();
        moved(&mut costs, ALL, [200, 400, 500], 100);
        let mut batches = [0; 3];
        for number in 0..1000 {
            let way = costs.choose(ALL);
            // One in four: of five in a row at most two, of three one.
            let held_up = if batches[way as usize] % 4 == 0 { 20 } else { 1 };
            batches[way as usize] += 1;
            costs.learn(way, 512, 512 * held_up * [200, 400, 500][way as usize]);
            assert!(
                !costs.is_worse(MoveMethod::Recycled, MoveMethod::Fresh, (1, 1)),
                "after {number}"
            );
            assert!(
                !costs.is_worse(MoveMethod::Recycled, MoveMethod::Kernel, (1, 1)),
                "after {number}"
            );
        }
    }

    /// Goal: a change is noticed, and batches of a few pages do not count.
    #[test]
    fn a_program_that_grows_changes_the_choice() {
        let mut costs = MethodCosts::default();
        let alone = moved(&mut costs, ALL, [200, 400, 500], 500);
        assert!(alone[0] > 470, "{alone:?}");
        (0..9).for_each(|_| costs.learn(MoveMethod::Kernel, PAGES_MIN - 1, 1));
        assert!(moved(&mut costs, ALL, [200, 400, 500], 9)[0] >= 8);
        let grown = moved(&mut costs, ALL, [2000, 1200, 500], 1000);
        assert!(grown[2] > 700, "{grown:?}");
    }

    proptest! {
        /// Goal: with any costs, the total is at most half more than by the cheapest method (the
        /// tolerance), plus a few percent for tries, and a round of them.
        #[test]
        fn it_never_costs_much_more_than_the_cheapest(
            prices in prop::array::uniform3(100..3000_u64),
        ) {
            let mut costs = MethodCosts::default();
            moved(&mut costs, ALL, prices, 20);
            let ways = moved(&mut costs, ALL, prices, 2000);
            let paid: u64 = ways.iter().zip(prices).map(|(&n, price)| u64::from(n) * price).sum();
            // Two other methods, each tried for 1/32 of the time, and once whatever the cost.
            let cheapest = *prices.iter().min().unwrap();
            let limit = 2000 * cheapest * 3 / 2 * 107 / 100 + 2 * 3 * 3000;
            prop_assert!(paid <= limit, "{ways:?} at {prices:?}: {paid}, not {limit}");
        }

        /// Goal: no measurement breaks it.
        #[test]
        fn any_numbers_will_do(
            batches in prop::collection::vec((0..4_u8, any::<u64>(), any::<u64>()), 0..200),
        ) {
            let mut costs = MethodCosts::default();
            for (way, pages, took_ns) in batches {
                match way {
                    0 => costs.learn(MoveMethod::Recycled, pages, took_ns),
                    1 => costs.learn(MoveMethod::Fresh, pages, took_ns),
                    2 => costs.learn(MoveMethod::Kernel, pages, took_ns),
                    _ => costs.record_failure(MoveMethod::Kernel),
                }
                prop_assert!(costs.choose(OURS) != MoveMethod::Kernel);
                costs.choose(ALL);
            }
        }
    }
}
