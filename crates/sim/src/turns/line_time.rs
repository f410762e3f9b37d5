//! The time of a cache line.

use nodeward_scenario::AccessPattern;

use crate::world::World;

/// How a turn finds its lines, per 1000.
#[derive(Clone, Copy, Debug)]
pub struct HitRates {
    /// Lines in the last-level cache.
    pub hit_milli: u64,
    /// Lines that need a page-table walk.
    pub walk_milli: u64,
}

impl World {
    /// Returns the time of a line on a CPU in picoseconds, where a miss takes `miss_ps`.
    pub(crate) fn line_ps(
        &self,
        cpu: usize,
        pattern: &AccessPattern,
        miss_ps: u128,
        HitRates { hit_milli, walk_milli }: HitRates,
    ) -> u64 {
        let params = &self.machine.params;
        let [misses, hits, walks] = [1000 - hit_milli, hit_milli, walk_milli].map(u128::from);
        let waits_ps = miss_ps * misses
            + u128::from(params.llc_ns) * 1000 * hits
            + u128::from(params.tlb_refill_ns) * 1000 * walks;
        let wait_ps = waits_ps / u128::from(pattern.parallel_milli.max(1));
        let wait_ps = u64::try_from(wait_ps).unwrap_or(u64::MAX);
        let compute_ps = pattern.compute_ps.saturating_mul(1000) / self.speed_milli(cpu);
        compute_ps.saturating_add(wait_ps).max(1)
    }
}
