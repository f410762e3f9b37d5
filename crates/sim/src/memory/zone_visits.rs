//! The lock of a zone: waits for it, and the time that it is held.

use super::memory_manager::MemoryManager;
use super::zone::ZoneTransfer;

impl MemoryManager<'_> {
    /// Takes a zone's lock at time `at_ns`, to transfer a number of pages or runs of pages. Returns
    /// the time of completion.
    pub fn transfer_under_zone_lock(
        &mut self,
        cpu: usize,
        node: usize,
        at_ns: u64,
        blocks: u64,
        visit: ZoneTransfer,
    ) -> u64 {
        let hold_ns = self.zone_hold_ns(blocks, visit);
        let lock = &mut self.memory.zones[node].lock;
        let hold = lock.acquire(cpu, at_ns, hold_ns, self.machine.params.zone_handoff_ns);
        let counters = &mut self.counters;
        let held_ns = hold.end_ns - at_ns - hold.waited_ns;
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        counters.zone_visits += 1;
        add(&mut counters.zone_waited_ns, hold.waited_ns);
        add(&mut counters.zone_held_ns, held_ns);
        if visit == ZoneTransfer::Refill {
            counters.zone_refills += 1;
            add(&mut counters.zone_refill_waited_ns, hold.waited_ns);
            add(&mut counters.zone_refill_held_ns, held_ns);
        }
        hold.end_ns
    }

    /// Returns the time that a zone's lock is held, without the cost of handing it over.
    fn zone_hold_ns(&self, blocks: u64, visit: ZoneTransfer) -> u64 {
        let params = &self.machine.params;
        let or = |told: u64, usual: u64| if told > 0 { told } else { usual };
        let (visit_ns, block_ps) = match visit {
            ZoneTransfer::Free => (params.zone_visit_ns, params.zone_hold_ps),
            ZoneTransfer::Refill => (
                or(params.zone_refill_visit_ns, params.zone_visit_ns),
                or(params.zone_refill_ps, params.zone_hold_ps),
            ),
        };
        visit_ns.saturating_add(blocks.saturating_mul(block_ps) / 1000)
    }
}
