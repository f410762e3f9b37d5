//! What strikes how often: allocations, holds, interrupts, samples, looks.

use nodeward_model::Page;
use nodeward_policy::sampling::Stream;
use nodeward_scenario::Faults;

use crate::mover::Folio;
use crate::space::SpaceId;
use crate::world::World;

/// How long a page is held, at times of its own. Assumed: about what a read from a disk takes.
const HOLD_NS: u64 = 1_000_000;
/// After so long a page fault tries again that found no page. Assumed: some rounds of reclaim.
pub const RETRY_NS: u64 = 100_000;

impl World {
    /// Whether something happens now that happens so many times of 1000.
    fn strikes(&mut self, milli: impl Fn(&Faults) -> u32) -> bool {
        let milli = self.faults.at(self.now_ns).map_or(0, milli);
        milli > 0 && self.faults.chance.next_value() % 1000 < u64::from(milli)
    }

    /// Whether an allocation fails.
    pub(crate) fn allocation_fails(&mut self) -> bool {
        let fails = self.strikes(|faults| faults.allocation_milli);
        self.counters.failed_allocations += u64::from(fails);
        fails
    }

    /// Whether somebody holds a folio now. Each is held or not for [`HOLD_NS`] at a time, from
    /// times on that differ from folio to folio.
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

    /// How late a CPU answers an interrupt, in nanoseconds.
    pub(crate) fn late_answer_ns(&mut self) -> u64 {
        if !self.strikes(|faults| faults.late_ipi_milli) {
            return 0;
        }
        self.counters.late_answers += 1;
        self.faults.at(self.now_ns).map_or(0, |faults| faults.late_ipi_by_ns)
    }

    /// Whether something is lost that was seen of accesses.
    pub(crate) fn sample_is_lost(&mut self) -> bool {
        let lost = self.strikes(|faults| faults.lost_samples_milli);
        self.counters.lost_samples += u64::from(lost);
        lost
    }

    /// What somebody is told who looks at a page: where it is, or where the look before saw it.
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
