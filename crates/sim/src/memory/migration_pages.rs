//! Allocation and freeing of pages for movers, without a fault.

use super::memory_manager::MemoryManager;
use super::physical_memory::PageProgress;
use super::zone::ZoneTransfer;

impl MemoryManager<'_> {
    /// Allocates up to `wanted` base pages of a node for copies, as far as there are any.
    pub fn allocate_pages(&mut self, cpu: usize, node: usize, wanted: u64) -> PageProgress {
        let (mut end, mut pages) = (self.now_ns, 0);
        while pages < wanted {
            let (take, visited) = self.refill_for(cpu, node, wanted - pages, end);
            end = visited;
            if take == 0 {
                break;
            }
            self.memory.take_from_list(cpu, node, take as u32);
            pages += take;
        }
        let list_ns = pages * self.machine.params.list_ps / 1000;
        PageProgress { pages, ns: end - self.now_ns + list_ns }
    }

    /// Frees base pages of a node. Returns the time that takes, in nanoseconds.
    pub fn return_pages(&mut self, cpu: usize, node: usize, pages: u64) -> u64 {
        let mut end = self.flush_deferred_frees(cpu, self.now_ns);
        let mut given = 0;
        while given < pages {
            given += self.free_base_pages(cpu, node, pages - given);
            end = self.flush_deferred_frees(cpu, end);
        }
        end - self.now_ns + pages * self.machine.params.list_ps / 1000
    }

    /// Allocates up to `wanted` folios of `size` base pages for copies, as far as there are any.
    pub fn allocate_folios(
        &mut self,
        cpu: usize,
        node: usize,
        size: u64,
        wanted: u64,
    ) -> PageProgress {
        let zone = &self.memory.zones[node];
        let free_pages = if zone.is_offline { 0 } else { zone.free_pages };
        let pages = wanted.min(free_pages / size.max(1));
        self.memory.zones[node].free_pages -= pages * size;
        let end =
            self.transfer_under_zone_lock(cpu, node, self.now_ns, pages, ZoneTransfer::Refill);
        PageProgress { pages, ns: end - self.now_ns }
    }

    /// Frees folios of `size` base pages. Returns the time that takes, in nanoseconds.
    pub fn return_folios(&mut self, cpu: usize, node: usize, size: u64, pages: u64) -> u64 {
        self.memory.zones[node].free_pages += pages * size;
        self.transfer_under_zone_lock(cpu, node, self.now_ns, pages, ZoneTransfer::Free)
            - self.now_ns
    }
}
