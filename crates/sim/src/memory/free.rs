//! Freeing pages: into lists, from lists to zones, and the periodic work on the lists.

use std::ops::Range;

use nodeward_policy::pcp::{self, Tuner};

use super::address_space::{PageByte, SpaceId};
use super::physical_memory::{PageProgress, PhysicalMemory, STEP_NS};
use super::zone::{ZoneTransfer, huge_pages};
use crate::arithmetic::mul_div;
use crate::events::SimEvent;
use crate::world::{NEVER_NS, World};

/// Huge pages that are returned to a zone in one step.
const HUGE_STEP: u64 = 16;
/// Unused ticks after which a list of another node is emptied, as in the kernel.
const FOREIGN_TICKS: u8 = 3;

impl World {
    /// Completes the zone work that a CPU has deferred, at time `at_ns`. Returns the time of
    /// completion.
    pub(crate) fn flush_deferred_frees(&mut self, cpu: usize, at_ns: u64) -> u64 {
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

    /// Frees pages of a region, from the first of `pages` on, until a lock is needed again. The
    /// result is CPU time that the caller must spend next.
    pub(crate) fn free_pages(
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
            self.record_freed_in_flight(space, region, pages.clone());
        }
        self.spaces[space].regions[region].set(pages, PageByte::ABSENT);
    }

    /// Puts base pages into a CPU's list until some of them have to go on to the zone. Returns the
    /// number of pages.
    pub(crate) fn free_base_pages(&mut self, cpu: usize, node: usize, pages: u64) -> u64 {
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
    fn defer_huge_free(&mut self, cpu: usize, node: usize) -> bool {
        match &mut self.memory.deferred[cpu].huge_pages {
            Some((other, blocks)) if *other == node && *blocks < HUGE_STEP => *blocks += 1,
            Some(_) => return false,
            none => *none = Some((node, 1)),
        }
        true
    }

    /// Drains all lists into their zones, as a last resort. Returns the time that takes, in
    /// nanoseconds.
    pub(crate) fn drain_all_lists(&mut self, cpu: usize) -> u64 {
        self.counters.list_drains += 1;
        let all = 0..self.layout.cpus.len();
        all.fold(self.now_ns, |end, other| self.drain_cpu_lists(cpu, other, end)) - self.now_ns
    }

    /// Drains the lists of CPU `of` into their zones, by CPU `by`, from time `at_ns` on. Returns
    /// the time of completion.
    pub(crate) fn drain_cpu_lists(&mut self, by: usize, of: usize, at_ns: u64) -> u64 {
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

    /// Does the periodic work on the lists of one CPU; each tick takes the next CPU.
    pub(crate) fn age_lists(&mut self) {
        let (cpus, nodes) = (self.layout.cpus.len(), self.machine.nodes.len());
        let cpu = self.memory.tick_cpu % cpus.max(1);
        self.memory.tick_cpu = cpu + 1;
        let own = self.layout.node_of(cpu);
        let mut end = self.flush_deferred_frees(cpu, self.now_ns);
        for node in 0..nodes {
            let back = self.memory.age_list(cpu, node, node != own, self.now_ns / 1_000_000);
            if back > 0 {
                end = self.transfer_under_zone_lock(
                    cpu,
                    node,
                    end,
                    u64::from(back),
                    ZoneTransfer::Free,
                );
            }
        }
        self.charge_interrupt(cpu, end - self.now_ns);
        self.plan_tick();
    }

    /// Plans the next tick.
    pub(crate) fn plan_tick(&mut self) {
        let period_ns = pcp::PERIOD_MS * 1_000_000;
        let next = self.now_ns + period_ns / (self.layout.cpus.len() as u64).max(1);
        self.events.plan(next, SimEvent::Tick);
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
