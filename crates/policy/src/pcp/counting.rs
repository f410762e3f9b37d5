//! The periods in which depths are counted. Counting takes time of every CPU that allocates: a
//! twelfth of a loop that does nothing else.

/// Periods at rest between two that are counted.
const REST_PERIODS: u32 = 4;

/// A depth has settled when it changed by no more than one part in this many.
const SETTLED_PARTS: u64 = 16;

/// Decides whether a period is counted: each one while the depth changes, then one in five.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingTurns {
    depth_pages: u64,
    rest: u32,
}

impl CountingTurns {
    /// Returns whether the next period is counted.
    pub fn counts(&self) -> bool {
        self.rest == 0
    }

    /// Takes the end of a period that was counted, with the largest average depth of a CPU, in
    /// pages, and whether the next one must be counted in any case.
    pub fn counted(&mut self, depth_pages: u64, must_go_on: bool) {
        let change = depth_pages.abs_diff(self.depth_pages);
        let is_settled = change <= depth_pages / SETTLED_PARTS;
        self.depth_pages = depth_pages;
        self.rest = if is_settled && !must_go_on { REST_PERIODS } else { 0 };
    }

    /// Takes the end of a period at rest, with the pages that all CPUs allocated in it, and whether
    /// the next one must be counted in any case. Fewer pages than the depth swing no list as deep.
    pub fn rested(&mut self, allocated_pages: u64, must_count: bool) {
        let is_over = allocated_pages < self.depth_pages;
        self.rest = if is_over || must_count { 0 } else { self.rest.saturating_sub(1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns which of so many periods are counted, each with this depth and as many pages.
    fn turns(turns: &mut CountingTurns, depths: &[u64]) -> Vec<bool> {
        let mut one = |&depth: &u64| {
            let counts = turns.counts();
            if counts {
                turns.counted(depth, false);
            } else {
                turns.rested(depth, false);
            }
            counts
        };
        depths.iter().map(&mut one).collect()
    }

    /// Goal: a depth that begins and grows as an average of 16,384 pages is counted until it has
    /// settled, 15,872 behind 15,360; then each fifth period is.
    #[test]
    fn a_depth_that_has_settled_is_counted_rarely() {
        let mut begun = CountingTurns::default();
        let growing = [8_192, 12_288, 14_336, 15_360, 15_872];
        assert_eq!(turns(&mut begun, &growing), [true; 5]);
        let turn = [false, false, false, false, true];
        assert_eq!(turns(&mut begun, &[16_128; 10]), [turn, turn].concat());
    }

    /// Goal: without a load one period in five is counted; one that begins is seen in the next of
    /// these, and counted from then on.
    #[test]
    fn a_load_is_seen_in_the_next_turn() {
        let mut idle = CountingTurns::default();
        let seen = turns(&mut idle, &[0, 0, 8_192, 8_192, 8_192, 8_192, 12_288]);
        assert_eq!(seen, [true, false, false, false, false, true, true]);
    }

    /// Goal: a load that ends while periods are at rest is seen at the end of the next one, as is
    /// what the caller knows.
    #[test]
    fn an_end_is_seen_at_once() {
        let mut settled = CountingTurns::default();
        turns(&mut settled, &[16_000; 2]);
        assert!(!settled.counts());
        settled.rested(15_999, false);
        assert!(settled.counts());
        turns(&mut settled, &[16_000]);
        settled.rested(16_000, true);
        assert!(settled.counts());
        settled.counted(16_000, true);
        assert!(settled.counts());
    }
}
