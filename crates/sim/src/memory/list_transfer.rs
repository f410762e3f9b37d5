//! Pages between the lists of CPUs and the zones.

use nodeward_policy::pcp::Tuner;

use super::memory_manager::MemoryManager;
use super::zone::{ZoneTransfer, huge_pages};

/// Huge pages that are returned to a zone in one step.
const HUGE_STEP: u64 = 16;

impl MemoryManager<'_> {
    /// Fills a CPU's list from the zone at time `at_ns` if it is empty. Returns the number of
    /// wanted pages that are in the list (1 or more if the node has any), and when.
    pub fn refill_for(&mut self, cpu: usize, node: usize, wanted: u64, at_ns: u64) -> (u64, u64) {
        let end = self.fill_list(cpu, node, 1, at_ns);
        let there = if self.memory.zones[node].is_offline {
            0
        } else {
            self.memory.pages_in_list(cpu, node)
        };
        (wanted.min(u64::from(there)), end)
    }

    /// Fills a CPU's list until it has a run of `run` pages, if the node has any. Returns when.
    pub fn fill_list(&mut self, cpu: usize, node: usize, run: u32, at_ns: u64) -> u64 {
        let begin = self.flush_deferred_frees(cpu, at_ns);
        let (list, zone) = self.memory.list_and_zone(cpu, node);
        if zone.is_offline || list.count >= run {
            return begin;
        }
        let wanted = list.tuner.refill(&zone.limits, list.count).next_multiple_of(run);
        let got = u64::from(wanted).min(zone.free_pages);
        zone.free_pages -= got;
        list.count += got as u32;
        zone.listed_pages += got;
        self.transfer_under_zone_lock(
            cpu,
            node,
            begin,
            got.div_ceil(u64::from(run)),
            ZoneTransfer::Refill,
        )
    }

    /// Completes the zone work that a CPU has deferred, at time `at_ns`. Returns the time of
    /// completion.
    pub fn flush_deferred_frees(&mut self, cpu: usize, at_ns: u64) -> u64 {
        let mut end = at_ns;
        if let Some((node, pages)) = self.memory.deferred[cpu].list_excess.take() {
            let (list, zone) = self.memory.list_and_zone(cpu, node);
            let pages = pages.min(list.count);
            list.count -= pages;
            zone.listed_pages -= u64::from(pages);
            zone.free_pages += u64::from(pages);
            end =
                self.transfer_under_zone_lock(cpu, node, end, u64::from(pages), ZoneTransfer::Free);
            self.latencies.record_free(end - at_ns, 1);
        }
        if let Some((node, blocks)) = self.memory.deferred[cpu].huge_pages.take() {
            let pages = huge_pages(self.machine.params.page_bytes);
            self.memory.zones[node].free_pages += blocks * pages;
            let begin = end;
            end = self.transfer_under_zone_lock(cpu, node, begin, blocks, ZoneTransfer::Free);
            self.latencies.record_free(end - begin, 1);
        }
        end
    }

    /// Puts base pages into a CPU's list until some of them have to go on to the zone. Returns the
    /// number of pages.
    pub fn free_base_pages(&mut self, cpu: usize, node: usize, pages: u64) -> u64 {
        let now_ms = self.now_ns / 1_000_000;
        let (list, zone) = self.memory.list_and_zone(cpu, node);
        let is_short = zone.free_pages < zone.high_watermark;
        list.idle_ticks = 0;
        for done in 1..=pages {
            let back = list.free(&zone.limits, 1, is_short, now_ms);
            if back > 0 {
                zone.listed_pages += done;
                self.memory.deferred[cpu].list_excess = Some((node, back));
                return done;
            }
        }
        zone.listed_pages += pages;
        pages
    }

    /// Defers the freeing of a huge page to the next visit of the zone. Returns whether there was
    /// room.
    pub fn defer_huge_free(&mut self, cpu: usize, node: usize) -> bool {
        match &mut self.memory.deferred[cpu].huge_pages {
            Some((other, blocks)) if *other == node && *blocks < HUGE_STEP => *blocks += 1,
            Some(_) => return false,
            none => *none = Some((node, 1)),
        }
        true
    }
}
