//! Which way is the cheapest to move a batch: to pages that earlier migrations left behind, to
//! fresh ones, or by the kernel's own migration.
//!
//! Kept pages save their allocation. But mapping one takes it out of its slot, and before Linux
//! 6.18 UFFDIO_MOVE makes every CPU of the process flush each page for itself. The kernel's
//! migration flushes once for a batch, though it does more for each page. Which costs least depends
//! on the kernel, the machine and how many CPUs the program runs on, so it is measured while pages
//! move.

/// Batches in a row by which a way is tried: one alone may have lost its CPU.
const TRIES: usize = 3;
/// Batches after which a way that is not in use is tried again if it costs as much as the usual
/// one. One that costs `n` times as much is tried `n` times as rarely: each way that is not in use
/// takes 3 % of the time.
const TRY_EVERY: u64 = 96;
/// A way of which nothing is known is tried after so many batches: the first ones of a lane find
/// caches and page tables cold.
const TRY_FIRST: u64 = 4;
/// The rarest tries are so many times `TRY_EVERY` apart, or one bad measurement would count for
/// ever.
const RARER_MAX: u64 = 16;
/// Smaller batches tell of calls and not of pages.
const PAGES_MIN: u64 = 32;
/// A way costs what the middle one of so many batches did: lanes lose their CPU, and one batch of
/// which that is true takes ten times as long as the others.
const SAMPLES: usize = 5;
/// Kept pages are given up only if they cost a fifth more: they also save memory bandwidth that is
/// not seen here, that of zeros and of pages that are freed.
const WORSE_THAN_FRESH: (u64, u64) = (6, 5);
/// We give way to the kernel only if we cost half more: what makes it cheaper makes it so by twice
/// and more, less is noise, and what it moves leaves no kept pages behind.
const WORSE_THAN_KERNEL: (u64, u64) = (3, 2);

/// How a batch is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By us, to pages of earlier migrations.
    Kept,
    /// By us, to fresh pages.
    Fresh,
    /// By the kernel.
    Kernel,
}

/// The ways that a batch can go. Fresh pages are always one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// There are kept pages.
    pub kept: bool,
    /// The kernel may be asked.
    pub kernel: bool,
}

/// What pages cost by each way, learned from batches.
#[derive(Clone, Copy, Debug, Default)]
pub struct WayCosts {
    kept: Option<Cost>,
    fresh: Option<Cost>,
    kernel: Option<Cost>,
    batches: u64,
}

/// What one way costs.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// Picoseconds for each page of the last batches; the next takes the place of the oldest.
    samples: [u64; SAMPLES],
    batches: usize,
    /// Batches, of all ways, before the last one that went this way.
    last: u64,
}

impl WayCosts {
    /// Learns from a batch that moved so many base pages, if they are enough to tell.
    pub fn learn(&mut self, way: Way, pages: u64, took_ns: u64) {
        if pages >= PAGES_MIN {
            self.enter(way, took_ns.saturating_mul(1000) / pages);
        }
    }

    /// Learns that a way led nowhere.
    pub fn refused(&mut self, way: Way) {
        self.enter(way, u64::MAX);
    }

    /// The way that the next batch should go: the cheapest, or one that is to be tried again.
    pub fn choice(&self, offer: Offer) -> Way {
        let ours = match offer.kept && !self.is_worse(Way::Kept, Way::Fresh, WORSE_THAN_FRESH) {
            true => Way::Kept,
            false => Way::Fresh,
        };
        let usual = match offer.kernel && self.is_worse(ours, Way::Kernel, WORSE_THAN_KERNEL) {
            true => Way::Kernel,
            false => ours,
        };
        let others = [(Way::Kernel, offer.kernel), (Way::Fresh, true), (Way::Kept, offer.kept)];
        let mut others = others.into_iter().filter(|&(way, offered)| offered && way != usual);
        others.find(|&(way, _)| self.is_due(way, usual)).map_or(usual, |(way, _)| way)
    }

    fn cost(&self, way: Way) -> Option<Cost> {
        match way {
            Way::Kept => self.kept,
            Way::Fresh => self.fresh,
            Way::Kernel => self.kernel,
        }
    }

    fn enter(&mut self, way: Way, page_ps: u64) {
        let known = match way {
            Way::Kept => &mut self.kept,
            Way::Fresh => &mut self.fresh,
            Way::Kernel => &mut self.kernel,
        };
        let now = self.batches;
        self.batches += 1;
        // What was learned long ago does not count.
        let mut cost = known.filter(|cost| now - cost.last < TRY_EVERY).unwrap_or(Cost {
            samples: [0; SAMPLES],
            batches: 0,
            last: now,
        });
        cost.samples[cost.batches % SAMPLES] = page_ps;
        cost.batches += 1;
        *known = Some(Cost { last: now, ..cost });
    }

    /// Whether a way is known to be dearer than another one by so much that it is given up.
    fn is_worse(&self, way: Way, than: Way, (more, less): (u64, u64)) -> bool {
        let than = self.cost(than).filter(|than| than.batches >= TRIES);
        let costs = self.cost(way).zip(than);
        costs.is_some_and(|(way, than)| way.page_ps() / more > than.page_ps() / less)
    }

    fn is_due(&self, way: Way, usual: Way) -> bool {
        match (self.cost(way), self.cost(usual)) {
            (_, None) => false,
            (None, _) => self.batches >= TRY_FIRST,
            (Some(way), _) if way.batches < TRIES => true,
            (Some(way), Some(usual)) => {
                let times_as_dear = (way.page_ps() / usual.page_ps().max(1)).clamp(1, RARER_MAX);
                self.batches - way.last > TRY_EVERY * times_as_dear
            }
        }
    }
}

impl Cost {
    /// The middle one of the last batches, of two the lesser.
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

    const ALL: Offer = Offer { kept: true, kernel: true };
    const OURS: Offer = Offer { kept: true, kernel: false };

    /// What a page costs kept, fresh and by the kernel, in ns.
    type Prices = [u64; 3];

    /// Moves batches at these prices; returns how many went each way.
    fn moved(costs: &mut WayCosts, offer: Offer, prices: Prices, batches: u32) -> [u32; 3] {
        let mut ways = [0; 3];
        for _ in 0..batches {
            let way = costs.choice(offer);
            ways[way as usize] += 1;
            costs.learn(way, 512, 512 * prices[way as usize]);
        }
        ways
    }

    fn from_the_start(offer: Offer, prices: Prices, batches: u32) -> [u32; 3] {
        moved(&mut WayCosts::default(), offer, prices, batches)
    }

    /// Goal: the usual way is the cheapest. The others are tried after four batches, three in a
    /// row, and then with 96 between if they cost less than twice as much, 192 below three times.
    #[test]
    fn the_cheapest_way_is_used() {
        let [kept, fresh, kernel] = from_the_start(ALL, [200, 400, 350], 1000);
        assert_eq!((fresh, kernel), (3 * (1 + 990 / 195), 3 * (1 + 990 / 99)));
        assert_eq!(kept, 1000 - fresh - kernel);
        let [_, fresh, kernel] = from_the_start(ALL, [400, 400, 400], 1000);
        assert_eq!((fresh, kernel), (3 * (1 + 990 / 99), 3 * (1 + 990 / 99)), "as cheap");
        let [kept, fresh, kernel] = from_the_start(ALL, [470, 480, 400], 1000);
        assert!(kept > 930 && fresh < 40 && kernel < 40, "a little cheaper is no reason");
    }

    /// Goal: where flushes are dear the kernel moves pages after it was tried, which is from the
    /// fifth batch on; and where only mapping kept pages is dear, pages are fresh.
    #[test]
    fn dear_flushes_are_left_to_the_kernel() {
        let [kept, fresh, kernel] = from_the_start(ALL, [4000, 2000, 500], 1000);
        assert_eq!(kept + fresh + kernel, 1000);
        // 4 before anything else, 3 when they are tried: after 8 * 96 kept, after 4 * 96 fresh.
        assert_eq!((kept, fresh), (4 + 3, 3 * (1 + 990 / (4 * 96))));
        // Ten times as dear: the first 4, and 3 after 960.
        assert_eq!(from_the_start(OURS, [4000, 400, 1], 1000), [4 + 3, 1000 - 7, 0]);
    }

    /// Goal: what is not there is not chosen, whatever it would cost.
    #[test]
    fn only_what_is_offered_is_chosen() {
        let ours = from_the_start(OURS, [4000, 4000, 1], 100);
        assert_eq!(ours[Way::Kernel as usize], 0);
        let fresh = Offer { kept: false, kernel: false };
        assert_eq!(from_the_start(fresh, [1, 4000, 1], 100), [0, 100, 0]);
    }

    /// Goal: a way that leads nowhere is left, and found again when it leads somewhere; for that
    /// the longest time between two tries passes.
    #[test]
    fn what_is_refused_is_rarely_tried() {
        let mut costs = WayCosts::default();
        moved(&mut costs, OURS, [400, 400, 1], 10);
        assert_eq!(costs.choice(ALL), Way::Kernel);
        (0..TRIES).for_each(|_| costs.refused(Way::Kernel));
        let rarest = u32::try_from(TRY_EVERY * RARER_MAX).unwrap();
        assert_eq!(moved(&mut costs, ALL, [400, 400, 100], rarest)[Way::Kernel as usize], 0);
        assert!(moved(&mut costs, ALL, [400, 400, 100], 100)[Way::Kernel as usize] > 80);
    }

    /// Goal: a lane that loses its CPU now and then does not change its way for that.
    #[test]
    fn batches_that_were_held_up_do_not_count() {
        let mut costs = WayCosts::default();
        moved(&mut costs, ALL, [200, 400, 500], 100);
        let mut batches = [0; 3];
        for number in 0..1000 {
            let way = costs.choice(ALL);
            // One in four: of five in a row at most two, of three one.
            let held_up = if batches[way as usize] % 4 == 0 { 20 } else { 1 };
            batches[way as usize] += 1;
            costs.learn(way, 512, 512 * held_up * [200, 400, 500][way as usize]);
            assert!(!costs.is_worse(Way::Kept, Way::Fresh, (1, 1)), "after {number}");
            assert!(!costs.is_worse(Way::Kept, Way::Kernel, (1, 1)), "after {number}");
        }
    }

    /// Goal: what changed is noticed, and batches of a few pages tell nothing.
    #[test]
    fn a_program_that_grows_changes_the_choice() {
        let mut costs = WayCosts::default();
        let alone = moved(&mut costs, ALL, [200, 400, 500], 500);
        assert!(alone[0] > 470, "{alone:?}");
        (0..9).for_each(|_| costs.learn(Way::Kernel, PAGES_MIN - 1, 1));
        assert!(moved(&mut costs, ALL, [200, 400, 500], 9)[0] >= 8);
        let grown = moved(&mut costs, ALL, [2000, 1200, 500], 1000);
        assert!(grown[2] > 700, "{grown:?}");
    }

    proptest! {
        /// Goal: whatever the prices are, it costs at most half more than the cheapest way (that is
        /// what counts as no worse), a few percent for tries, and a round of them.
        #[test]
        fn it_never_costs_much_more_than_the_cheapest(
            prices in prop::array::uniform3(100..3000_u64),
        ) {
            let mut costs = WayCosts::default();
            moved(&mut costs, ALL, prices, 20);
            let ways = moved(&mut costs, ALL, prices, 2000);
            let paid: u64 = ways.iter().zip(prices).map(|(&n, price)| u64::from(n) * price).sum();
            // Two other ways, each tried for 1/32 of the time, and once whatever it costs.
            let cheapest = *prices.iter().min().unwrap();
            let limit = 2000 * cheapest * 3 / 2 * 107 / 100 + 2 * 3 * 3000;
            prop_assert!(paid <= limit, "{ways:?} at {prices:?}: {paid}, not {limit}");
        }

        /// Goal: no measurement breaks it.
        #[test]
        fn any_numbers_will_do(
            batches in prop::collection::vec((0..4_u8, any::<u64>(), any::<u64>()), 0..200),
        ) {
            let mut costs = WayCosts::default();
            for (way, pages, took_ns) in batches {
                match way {
                    0 => costs.learn(Way::Kept, pages, took_ns),
                    1 => costs.learn(Way::Fresh, pages, took_ns),
                    2 => costs.learn(Way::Kernel, pages, took_ns),
                    _ => costs.refused(Way::Kernel),
                }
                prop_assert!(costs.choice(OURS) != Way::Kernel);
                costs.choice(ALL);
            }
        }
    }
}
