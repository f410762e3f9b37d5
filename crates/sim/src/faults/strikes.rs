//! Draws faults at their configured rates: allocations, pins, interrupts, samples, looks.

use nodeward_model::Page;
use nodeward_policy::sampling::Stream;
use nodeward_scenario::Faults;

use crate::mover::Folio;
use crate::space::SpaceId;
use crate::world::World;

/// Length of a pin; each page's pins begin at times of its own. Assumed: about the time of a disk
/// read.
const HOLD_NS: u64 = 1_000_000;
/// Delay after which a page fault that found no page retries. Assumed: some rounds of reclaim.
pub const RETRY_NS: u64 = 100_000;

impl World {
    /// Returns whether a fault with a rate per 1000 occurs now.
    fn strikes(&mut self, milli: impl Fn(&Faults) -> u32) -> bool {
        let milli = self.faults.at(self.now_ns).map_or(0, milli);
        milli > 0 && self.faults.chance.next_value() % 1000 < u64::from(milli)
    }

    /// Returns whether an allocation fails.
    pub(crate) fn allocation_fails(&mut self) -> bool {
        let fails = self.strikes(|faults| faults.allocation_milli);
        self.counters.failed_allocations += u64::from(fails);
        fails
    }

    /// Returns whether a folio is pinned now. Its state lasts for [`HOLD_NS`] at a time; the start
    /// of these periods differs from folio to folio.
    pub(crate) fn is_held(&self, space: SpaceId, folio: &Folio) -> bool {
        let milli = self.faults.at(self.now_ns).map_or(0, |faults| faults.pinned_milli);
        if milli == 0 {
            return false;
        }
        let place = [space as u64, folio.region as u64, folio.pages.start];
        let own = place.iter().fold(self.seed, |sum, part| Stream::new(sum ^ part).next_value());
        let period = (self.now_ns + own % HOLD_NS) / HOLD_NS;
        Stream::new(own ^ period).next_value() % 1000 < u64::from(milli)
    }

    /// Returns the delay with which a CPU answers an interrupt, in nanoseconds.
    pub(crate) fn late_answer_ns(&mut self) -> u64 {
        if !self.strikes(|faults| faults.late_ipi_milli) {
            return 0;
        }
        self.counters.late_answers += 1;
        self.faults.at(self.now_ns).map_or(0, |faults| faults.late_ipi_by_ns)
    }

    /// Returns whether an access sample is lost.
    pub(crate) fn sample_is_lost(&mut self) -> bool {
        let lost = self.strikes(|faults| faults.lost_samples_milli);
        self.counters.lost_samples += u64::from(lost);
        lost
    }

    /// Returns what an observer sees of a page: its place, or the place that the previous look saw.
    pub(crate) fn as_told(&mut self, space: SpaceId, address: u64, page: Page) -> Page {
        let is_on = |faults: &&Faults| faults.stale_residency_milli > 0;
        if self.faults.at(self.now_ns).filter(is_on).is_none() {
            return page;
        }
        let is_late = self.strikes(|faults| faults.stale_residency_milli);
        let seen = self.faults.seen.insert((space, address), page.place);
        match seen.filter(|&place| is_late && place != page.place) {
            Some(place) => {
                self.counters.stale_looks += 1;
                Page { place, ..page }
            }
            None => page,
        }
    }
}
