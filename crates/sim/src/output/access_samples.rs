//! Samples of the access counters in the memory controllers.

use crate::memory::{PageAccesses, PageKey};
use crate::world::World;

impl World {
    /// Reads the access counters of a node's memory (by index) and clears them.
    pub fn take_accesses(&mut self, node: usize) -> Vec<PageAccesses> {
        let tell = |((space, region, page), from, lines): (PageKey, usize, u64)| {
            let space = &self.spaces[space];
            let address = space.regions[region].address_of(page);
            PageAccesses { pid: space.pid, address, from: self.layout.node_ids[from], lines }
        };
        let mut told: Vec<_> =
            self.memory.accesses.read_and_clear(node).into_iter().map(tell).collect();
        let (faults, now_ns) = (&mut self.fault_model, self.now_ns);
        told.retain(|_| !faults.sample_is_lost(now_ns, &mut self.counters));
        told
    }
}
