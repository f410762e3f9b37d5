//! The rate of a copy.

use crate::arithmetic::mul_div;
use crate::cpu::LineCopy;
use crate::world::World;

impl World {
    /// Returns the time to copy a line now, in picoseconds. Reading and writing overlap, and
    /// neither may have more lines in flight than fit.
    pub(crate) fn copy_line_ps(&self, cpu: usize, copying: &LineCopy) -> u64 {
        let (place, params) = (&self.layout.cpus[cpu], &self.machine.params);
        let latency = |node| self.traffic.latency_ps(place.complex, place.node, node);
        let miss_ps = latency(copying.from).max(latency(copying.to));
        let wait_ps = mul_div(miss_ps, 1000, params.copy_parallel_milli);
        let speed = self.speed_milli(cpu);
        let own_ps = u128::from(params.line_bytes) * 1_000_000_000_000_000;
        let own_ps = own_ps / u128::from(params.copy_bytes_per_s.max(1)) / u128::from(speed);
        u64::try_from(own_ps).unwrap_or(u64::MAX).max(wait_ps).max(1)
    }
}
