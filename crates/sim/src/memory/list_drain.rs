//! Lists that are drained into their zones: all at once, or little by little.

use nodeward_policy::pcp::Tuner;

use super::memory_manager::MemoryManager;
use super::physical_memory::PhysicalMemory;
use super::zone::ZoneTransfer;

/// Unused ticks after which a list of another node is emptied, as in the kernel.
const FOREIGN_TICKS: u8 = 3;

impl MemoryManager<'_> {
    /// Drains all lists into their zones, as a last resort. Returns the time that takes, in
    /// nanoseconds.
    pub fn drain_all_lists(&mut self, cpu: usize) -> u64 {
        self.counters.list_drains += 1;
        let all = 0..self.layout.cpus.len();
        all.fold(self.now_ns, |end, other| self.drain_cpu_lists(cpu, other, end)) - self.now_ns
    }

    /// Drains the lists of CPU `of` into their zones, by CPU `by`, from time `at_ns` on. Returns
    /// the time of completion.
    pub fn drain_cpu_lists(&mut self, by: usize, of: usize, at_ns: u64) -> u64 {
        let nodes = self.machine.nodes.len();
        let mut end = self.flush_deferred_frees(of, at_ns);
        for node in 0..nodes {
            let Some(list) = &mut self.memory.pcp_lists[of * nodes + node] else { continue };
            let pages = u64::from(std::mem::take(&mut list.count));
            if pages > 0 {
                self.memory.zones[node].listed_pages -= pages;
                self.memory.zones[node].free_pages += pages;
                end = self.transfer_under_zone_lock(by, node, end, pages, ZoneTransfer::Free);
            }
        }
        end
    }

    /// Does the periodic work on the lists of one CPU; each call takes the next CPU. Returns that
    /// CPU, and the time of completion.
    pub fn age_lists(&mut self) -> (usize, u64) {
        let (cpus, nodes) = (self.layout.cpus.len(), self.machine.nodes.len());
        let cpu = self.memory.tick_cpu % cpus.max(1);
        self.memory.tick_cpu = cpu + 1;
        let own = self.layout.node_of(cpu);
        let mut end = self.flush_deferred_frees(cpu, self.now_ns);
        for node in 0..nodes {
            let back = self.memory.age_list(cpu, node, node != own, self.now_ns / 1_000_000);
            if back > 0 {
                let pages = u64::from(back);
                end = self.transfer_under_zone_lock(cpu, node, end, pages, ZoneTransfer::Free);
            }
        }
        (cpu, end)
    }
}

impl PhysicalMemory {
    /// Removes the surplus from one list. Returns the number of pages.
    fn age_list(&mut self, cpu: usize, node: usize, is_foreign: bool, now_ms: u64) -> u32 {
        let place = cpu * self.zones.len() + node;
        let zone = &mut self.zones[node];
        let Some(list) = &mut self.pcp_lists[place] else { return 0 };
        list.idle_ticks = list.idle_ticks.saturating_add(1);
        let back = list.tuner.tick(&zone.limits, list.count, now_ms);
        let is_forgotten = is_foreign && list.idle_ticks >= FOREIGN_TICKS;
        let back = if is_forgotten { list.count } else { back.min(list.count) };
        list.count -= back;
        zone.listed_pages -= u64::from(back);
        zone.free_pages += u64::from(back);
        back
    }
}
