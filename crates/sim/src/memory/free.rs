//! Freeing the pages of a process.

use std::ops::Range;

use super::memory_manager::MemoryManager;
use super::page_byte::PageByte;
use super::physical_memory::{PageProgress, STEP_NS};
use crate::arithmetic::mul_div;
use crate::events::NEVER_NS;
use crate::ids::SpaceId;

impl MemoryManager<'_> {
    /// Frees pages of a region, from the first of `pages` on, until a lock is needed again. The
    /// result is CPU time that the caller must spend next.
    pub fn free_pages(
        &mut self,
        cpu: usize,
        space: SpaceId,
        region: usize,
        pages: Range<u64>,
    ) -> PageProgress {
        // The waits here are the shorter ones. A CPU that takes a lock after a long wait would, in
        // this model, keep others out of a lock that is free until then.
        let settled = self.flush_lru_batch(cpu, self.now_ns);
        let settled = self.flush_deferred_frees(cpu, settled);
        let most = (STEP_NS / self.machine.params.unmap_free_ns.max(1)).max(1);
        let group = self.spaces[space].memcg;
        let mut page = pages.start;
        let mut freed = 0;
        while page < pages.end && freed < most && self.memory.deferred[cpu].list_excess.is_none() {
            let entry = &self.spaces[space].regions[region];
            let (byte, alike) = entry.uniform_run(page, pages.end);
            let Some(node) = byte.node() else {
                page += alike;
                continue;
            };
            if entry.is_huge(page) && entry.whole_chunk(page) == Some(page..page + alike) {
                if !self.defer_huge_free(cpu, node) {
                    break;
                }
                self.add_to_lru_batch(cpu, group, node, 1);
                self.counters.freed_pages += alike;
                freed += 1;
                self.unmap_freed(space, region, page..page + alike);
                page += alike;
                continue;
            }
            let room = self.lru_room(cpu, group, node);
            let count = self.free_base_pages(cpu, node, alike.min(most - freed).min(room));
            self.add_to_lru_batch(cpu, group, node, count);
            self.counters.freed_pages += count;
            freed += count;
            self.unmap_freed(space, region, page..page + count);
            page += count;
            if count == room {
                break;
            }
        }
        self.latencies.record_free(self.machine.params.list_ps / 1000, freed);
        let page_ps = self.machine.params.unmap_free_ns * 1000 + self.machine.params.list_ps;
        let ns = settled - self.now_ns + mul_div(freed, page_ps, 1000).min(NEVER_NS);
        PageProgress { pages: page - pages.start, ns }
    }

    /// Marks freed pages, which are alike, as absent.
    fn unmap_freed(&mut self, space: SpaceId, region: usize, pages: Range<u64>) {
        if self.spaces[space].regions[region].page(pages.start).is_in_flight() {
            self.memory.freed_in_flight.record(space, region, pages.clone());
        }
        self.spaces[space].regions[region].set(pages, PageByte::ABSENT);
    }
}
