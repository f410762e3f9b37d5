//! Draws fault rates.

use nodeward_scenario::Faults;

use super::Style;
use crate::Chance;

impl Style {
    /// Draws the faults of a run of `time_ns`; none in one case of three.
    pub(super) fn faults(&self, chance: &mut Chance, time_ns: u64) -> Option<Faults> {
        if chance.one_in(3) {
            return None;
        }
        let mut rate = || chance.of(self.fault_milli);
        let mut faults = Faults {
            allocation_milli: rate(),
            pinned_milli: rate(),
            late_ipi_milli: rate(),
            lost_samples_milli: rate(),
            stale_residency_milli: rate(),
            ..Faults::default()
        };
        faults.late_ipi_by_ns = chance.within(self.late_ns);
        faults.start_ns = chance.below(time_ns / 2) * chance.below(2);
        let until_ns = faults.start_ns + 1 + chance.below(time_ns - faults.start_ns);
        faults.until_ns = (self.is_likely || chance.one_in(2)).then_some(until_ns);
        Some(faults)
    }
}
