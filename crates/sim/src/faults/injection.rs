//! Draws faults at their configured rates: allocations, pins, interrupts, samples, looks.

use nodeward_model::Page;
use nodeward_policy::sampling::SplitMix64;
use nodeward_scenario::FaultInjection;

use super::fault_model::FaultModel;
use crate::ids::SpaceId;
use crate::memory::Folio;
use crate::statistics::Counters;

/// Length of a pin; each page's pins begin at times of its own. Assumed: about the time of a disk
/// read.
const PIN_NS: u64 = 1_000_000;
/// Delay after which a page fault that found no page retries. Assumed: some rounds of reclaim.
pub const RETRY_NS: u64 = 100_000;

impl FaultModel {
    /// Returns whether a fault with a rate per 1000 occurs now.
    fn occurs(&mut self, now_ns: u64, milli: impl Fn(&FaultInjection) -> u32) -> bool {
        let milli = self.rates_at(now_ns).map_or(0, milli);
        milli > 0 && self.rng.next_u64() % 1000 < u64::from(milli)
    }

    /// Returns whether an allocation fails.
    pub fn allocation_fails(&mut self, now_ns: u64, counters: &mut Counters) -> bool {
        let fails = self.occurs(now_ns, |faults| faults.allocation_milli);
        counters.failed_allocations += u64::from(fails);
        fails
    }

    /// Returns whether a folio is pinned now. Its state lasts for [`PIN_NS`] at a time; the start
    /// of these periods differs from folio to folio.
    pub fn is_pinned(&self, now_ns: u64, space: SpaceId, folio: &Folio) -> bool {
        let milli = self.rates_at(now_ns).map_or(0, |faults| faults.pinned_milli);
        if milli == 0 {
            return false;
        }
        let place = [space as u64, folio.region as u64, folio.pages.start];
        let own = place.iter().fold(self.seed, |sum, part| SplitMix64::new(sum ^ part).next_u64());
        let period = (now_ns + own % PIN_NS) / PIN_NS;
        SplitMix64::new(own ^ period).next_u64() % 1000 < u64::from(milli)
    }

    /// Returns the delay with which a CPU answers an interrupt, in nanoseconds.
    pub fn ipi_delay_ns(&mut self, now_ns: u64, counters: &mut Counters) -> u64 {
        if !self.occurs(now_ns, |faults| faults.late_ipi_milli) {
            return 0;
        }
        counters.late_answers += 1;
        self.rates_at(now_ns).map_or(0, |faults| faults.ipi_delay_ns)
    }

    /// Returns whether an access sample is lost.
    pub fn sample_is_lost(&mut self, now_ns: u64, counters: &mut Counters) -> bool {
        let lost = self.occurs(now_ns, |faults| faults.lost_samples_milli);
        counters.lost_samples += u64::from(lost);
        lost
    }

    /// Returns what an observer sees of a page: its place, or the place that the previous look saw.
    pub fn observed_page(
        &mut self,
        now_ns: u64,
        counters: &mut Counters,
        (space, address): (SpaceId, u64),
        page: Page,
    ) -> Page {
        let is_on = |faults: &&FaultInjection| faults.stale_residency_milli > 0;
        if self.rates_at(now_ns).filter(is_on).is_none() {
            return page;
        }
        let is_late = self.occurs(now_ns, |faults| faults.stale_residency_milli);
        let seen = self.last_locations.insert((space, address), page.location);
        match seen.filter(|&place| is_late && place != page.location) {
            Some(place) => {
                counters.stale_looks += 1;
                Page { location: place, ..page }
            }
            None => page,
        }
    }
}
