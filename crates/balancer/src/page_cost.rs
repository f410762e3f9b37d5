//! The measured cost of moving a page: the balancer's own CPU time, with the search for pages.

/// Weight of the assumed cost, in pages, beside the measured ones.
const ASSUMED_PAGES: u64 = 4 << 10;
/// Fewer pages say more of what it costs to look for them than of what a page costs.
const LEARNED_PAGES_MIN: u64 = 1 << 8;
/// Maximum weight of measurements, in pages; beyond it older ones count less.
const MEASURED_PAGES_MAX: u64 = 64 << 10;
/// Half-life of a measurement, in nanoseconds. Without it, a cost so high that nothing moves would
/// never be measured again. A shorter half-life would let moves that did not pay begin more often,
/// under a constant load.
const HALF_LIFE_NS: u64 = 3_600_000_000_000;
/// ln 2 in thousandths: in a short time `t` a weight loses `ln 2 * t / half-life` of itself.
const LN_2_MILLI: u128 = 693;
/// Weights are kept in parts of a page of this size, so that small weights decrease too, and not
/// only their cost.
const PARTS: u64 = 1 << 20;

/// The measured cost of moves.
#[derive(Debug, Default)]
pub struct PageCost {
    /// Weight, in parts of a page.
    parts: u64,
    cpu_ns: u64,
    /// The cost of a page in the last measurement.
    last_ns: u64,
}

impl PageCost {
    /// Lets time pass: measurements lose weight.
    pub fn pass(&mut self, ns: u64) {
        let left = |sum: u64| {
            let lost = u128::from(sum) * u128::from(ns.min(HALF_LIFE_NS)) * LN_2_MILLI;
            sum - (lost / u128::from(HALF_LIFE_NS) / 1000) as u64
        };
        (self.parts, self.cpu_ns) = (left(self.parts), left(self.cpu_ns));
    }

    /// Adds a measurement: `cpu_ns` of CPU time for `pages` pages, given the cost to assume without
    /// measurements. A cost that is higher than before is believed when the next one confirms it:
    /// time that a hypervisor takes from a virtual CPU looks like the balancer's own, and one such
    /// moment must not end all moves.
    pub fn learn(&mut self, pages: u64, cpu_ns: u64, assumed_ns: u64) {
        if pages < LEARNED_PAGES_MIN {
            return;
        }
        let most_ns = self.page_ns(assumed_ns).max(self.last_ns);
        self.last_ns = cpu_ns / pages;
        let cpu_ns = cpu_ns.min(most_ns.saturating_mul(pages));
        const MOST: u64 = MEASURED_PAGES_MAX * PARTS;
        self.parts = self.parts.saturating_add(pages.saturating_mul(PARTS));
        self.cpu_ns = self.cpu_ns.saturating_add(cpu_ns);
        if self.parts > MOST {
            let part = u128::from(MOST) * u128::from(self.cpu_ns);
            self.cpu_ns = u64::try_from(part / u128::from(self.parts)).unwrap_or(u64::MAX);
            self.parts = MOST;
        }
    }

    /// Returns the cost of a page in nanoseconds, given the cost to assume without measurements.
    pub fn page_ns(&self, assumed_ns: u64) -> u64 {
        let assumed = assumed_ns.saturating_mul(ASSUMED_PAGES);
        let cost_ns = u128::from(assumed.saturating_add(self.cpu_ns)) * u128::from(PARTS);
        let price = cost_ns / u128::from(ASSUMED_PAGES * PARTS + self.parts);
        u64::try_from(price).unwrap_or(u64::MAX).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a measurement of as many pages as are assumed counts as much, one of many pages
    /// determines the cost; of very many pages the last ones count. The first only tells what the
    /// second may cost.
    #[test]
    fn what_is_measured_outweighs_what_is_assumed() {
        let mut cost = PageCost::default();
        assert_eq!(cost.page_ns(2_000), 2_000);
        cost.learn(0, 1_000_000, 2_000);
        assert_eq!(cost.page_ns(2_000), 2_000, "a search that found nothing");
        cost.learn(4096, 4096 * 100_000, 2_000);
        assert_eq!(cost.page_ns(2_000), 2_000);
        cost.learn(8192, 8192 * 100_000, 2_000);
        assert_eq!(cost.page_ns(2_000), 51_000); // as many pages of 2 us as of 100
        for _ in 0..100 {
            cost.learn(65_536, 65_536 * 10_000, 2_000);
        }
        // 65,536 of 10 us and 4,096 of 2 us: 663,552 / 69,632 = 9.529 us.
        assert_eq!(cost.page_ns(2_000) / 100, 95);
    }

    /// Goal: neither searches that find few pages nor a moment in which others had the CPU make
    /// pages too dear.
    #[test]
    fn one_stolen_moment_is_no_cost() {
        let mut cost = PageCost::default();
        (0..10_000).for_each(|_| cost.learn(7, 20_000_000, 2_000));
        for _ in 0..100 {
            cost.learn(1025, 1025 * 700_000, 2_000);
            cost.learn(1025, 1025 * 2_000, 2_000);
        }
        assert_eq!(cost.page_ns(2_000), 2_000);
    }

    /// Goal: after four half-lives a measured cost that was too high counts for a sixteenth of its
    /// pages, and after a day the cost is the assumed one, no less.
    #[test]
    fn what_was_measured_is_forgotten() {
        let mut cost = PageCost::default();
        (0..10).for_each(|_| cost.learn(65_536, 65_536 * 200_000, 2_000));
        assert!(cost.page_ns(2_000) > 180_000);
        let hours = |cost: &mut PageCost, hours| {
            (0..hours * 3600).for_each(|_| cost.pass(1_000_000_000));
        };
        hours(&mut cost, 4);
        // 4,096 pages of 200 us and as many of 2 us: 101 us.
        assert!((100_000..102_000).contains(&cost.page_ns(2_000)), "{cost:?}");
        hours(&mut cost, 20);
        assert!((1_990..2_010).contains(&cost.page_ns(2_000)), "{cost:?}");
        cost.pass(u64::MAX);
    }
}
