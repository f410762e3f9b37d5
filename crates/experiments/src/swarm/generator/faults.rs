//! Draws fault rates.

use nodeward_scenario::FaultInjection;

use super::GeneratorProfile;
use crate::swarm::SeededRng;

impl GeneratorProfile {
    /// Draws the faults of a run of `time_ns`; none in one case of three.
    pub(super) fn faults(&self, chance: &mut SeededRng, time_ns: u64) -> Option<FaultInjection> {
        if chance.one_in(3) {
            return None;
        }
        let mut rate = || chance.pick(self.fault_milli);
        let mut faults = FaultInjection {
            allocation_milli: rate(),
            pinned_milli: rate(),
            late_ipi_milli: rate(),
            lost_samples_milli: rate(),
            stale_residency_milli: rate(),
            ..FaultInjection::default()
        };
        faults.ipi_delay_ns = chance.near_bounds(self.ipi_delay_ns);
        faults.start_ns = chance.below(time_ns / 2) * chance.below(2);
        let until_ns = faults.start_ns + 1 + chance.below(time_ns - faults.start_ns);
        faults.until_ns = (self.is_realistic || chance.one_in(2)).then_some(until_ns);
        Some(faults)
    }
}
