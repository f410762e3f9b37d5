//! Draws faults at their configured rates: allocations, pins, interrupts, samples, looks.

use nodeward_model::Page;
use nodeward_policy::sampling::SplitMix64;
use nodeward_scenario::FaultInjection;

use crate::memory::SpaceId;
use crate::migration::Folio;
use crate::world::World;

/// Length of a pin; each page's pins begin at times of its own. Assumed: about the time of a disk
/// read.
const PIN_NS: u64 = 1_000_000;
/// Delay after which a page fault that found no page retries. Assumed: some rounds of reclaim.
pub const RETRY_NS: u64 = 100_000;

impl World {
    /// Returns whether a fault with a rate per 1000 occurs now.
    fn occurs(&mut self, milli: impl Fn(&FaultInjection) -> u32) -> bool {
        let milli = self.fault_model.rates_at(self.now_ns).map_or(0, milli);
        milli > 0 && self.fault_model.rng.next_u64() % 1000 < u64::from(milli)
    }

    /// Returns whether an allocation fails.
    pub(crate) fn allocation_fails(&mut self) -> bool {
        let fails = self.occurs(|faults| faults.allocation_milli);
        self.counters.failed_allocations += u64::from(fails);
        fails
    }

    /// Returns whether a folio is pinned now. Its state lasts for [`PIN_NS`] at a time; the start
    /// of these periods differs from folio to folio.
    pub(crate) fn is_pinned(&self, space: SpaceId, folio: &Folio) -> bool {
        let milli = self.fault_model.rates_at(self.now_ns).map_or(0, |faults| faults.pinned_milli);
        if milli == 0 {
            return false;
        }
        let place = [space as u64, folio.region as u64, folio.pages.start];
        let own = place.iter().fold(self.seed, |sum, part| SplitMix64::new(sum ^ part).next_u64());
        let period = (self.now_ns + own % PIN_NS) / PIN_NS;
        SplitMix64::new(own ^ period).next_u64() % 1000 < u64::from(milli)
    }

    /// Returns the delay with which a CPU answers an interrupt, in nanoseconds.
    pub(crate) fn ipi_delay_ns(&mut self) -> u64 {
        if !self.occurs(|faults| faults.late_ipi_milli) {
            return 0;
        }
        self.counters.late_answers += 1;
        self.fault_model.rates_at(self.now_ns).map_or(0, |faults| faults.ipi_delay_ns)
    }

    /// Returns whether an access sample is lost.
    pub(crate) fn sample_is_lost(&mut self) -> bool {
        let lost = self.occurs(|faults| faults.lost_samples_milli);
        self.counters.lost_samples += u64::from(lost);
        lost
    }

    /// Returns what an observer sees of a page: its place, or the place that the previous look saw.
    pub(crate) fn observed_page(&mut self, space: SpaceId, address: u64, page: Page) -> Page {
        let is_on = |faults: &&FaultInjection| faults.stale_residency_milli > 0;
        if self.fault_model.rates_at(self.now_ns).filter(is_on).is_none() {
            return page;
        }
        let is_late = self.occurs(|faults| faults.stale_residency_milli);
        let seen = self.fault_model.last_locations.insert((space, address), page.location);
        match seen.filter(|&place| is_late && place != page.location) {
            Some(place) => {
                self.counters.stale_looks += 1;
                Page { location: place, ..page }
            }
            None => page,
        }
    }
}
