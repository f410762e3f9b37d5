//! Page faults: pages that are brought in, and what that costs.

use std::ops::Range;

use nodeward_scenario::MemoryPlacement;

use crate::arithmetic::mul_div;
use crate::faults::RETRY_NS;
use crate::hardware::Flow;
use crate::ids::SpaceId;
use crate::memory::{CHUNK_BYTES, PageByte, PageProgress, STEP_NS, ZoneTransfer, huge_pages};
use crate::world::World;

/// A fault, or a row of faults, that is about to happen.
#[derive(Clone, Copy, Debug)]
struct FaultSite {
    cpu: usize,
    space: SpaceId,
    region: usize,
    page: u64,
    node: usize,
}

impl World {
    /// Faults in pages of a region, from the first of `pages` on, until a lock is needed again.
    /// Pages that are present take no time. The result is CPU time that the caller must spend next.
    /// `None` if there is no memory.
    pub(crate) fn fault_in(
        &mut self,
        cpu: usize,
        space: SpaceId,
        region: usize,
        pages: Range<u64>,
    ) -> Option<PageProgress> {
        let entry = &self.spaces[space].regions[region];
        // At most as far as one step goes.
        let step = STEP_NS / self.machine.params.fault_ns.max(1) + 1;
        let end = pages.end.min(pages.start.saturating_add(step));
        let (byte, alike) = entry.uniform_run(pages.start, end);
        if byte != PageByte::ABSENT {
            return Some(PageProgress { pages: alike, ns: 0 });
        }
        let fails = self.fault_model.allocation_fails(self.now_ns, &mut self.counters);
        let entry = &self.spaces[space].regions[region];
        if entry.faults_huge
            && !fails
            && let Some(chunk) = entry.whole_chunk(pages.start)
            && entry.uniform_run(chunk.start, chunk.end)
                == (PageByte::ABSENT, chunk.end - chunk.start)
            && let Some(node) = self.allocation_node(cpu, space, region, chunk.start, true)
        {
            let fault = FaultSite { cpu, space, region, page: chunk.start, node };
            let ns = self.fault_huge(fault);
            return Some(PageProgress { pages: chunk.end.min(pages.end) - pages.start, ns });
        }
        let find = |world: &Self| world.allocation_node(cpu, space, region, pages.start, false);
        let mut drained_ns = 0;
        let node = find(self).or_else(|| {
            drained_ns = self.mm().drain_all_lists(cpu);
            find(self)
        });
        let node = node?;
        drained_ns += if fails { RETRY_NS } else { 0 };
        let fault = FaultSite { cpu, space, region, page: pages.start, node };
        let placement = &self.spaces[space].regions[region].placement;
        if matches!(placement, MemoryPlacement::Interleave(_)) {
            let first = self.fault_base(fault, 1, drained_ns);
            return Some(self.fault_interleaved(fault, pages.start..end, first));
        }
        let done = self.fault_base(fault, alike, drained_ns);
        let here = self.layout.node_of(cpu);
        if node != here && !self.spaces[space].regions[region].placement.is_memory_policy() {
            self.memory.zones[here].foreign_pages += done.pages;
        }
        self.begin_clearing(cpu, node, done.pages * self.machine.params.page_bytes, done.ns);
        Some(done)
    }

    /// Faults in further pages behind the first one, each from the node that is next in turn, as
    /// long as the lists have pages.
    fn fault_interleaved(
        &mut self,
        fault: FaultSite,
        pages: Range<u64>,
        first: PageProgress,
    ) -> PageProgress {
        let FaultSite { cpu, space, region, node, .. } = fault;
        let (group, page_bytes) = (self.spaces[space].memcg, self.machine.params.page_bytes);
        let mut done = first;
        let mut by_node = vec![0; self.machine.nodes.len()];
        by_node[node] = first.pages;
        for page in pages.start + first.pages..pages.end {
            let is_absent = self.spaces[space].regions[region].page(page) == PageByte::ABSENT;
            let node = self.allocation_node(cpu, space, region, page, false);
            let Some(node) = node.filter(|_| is_absent && done.ns < STEP_NS) else { break };
            if self.memory.pages_in_list(cpu, node) == 0
                || self.mm().lru_room(cpu, group, node) <= 1
            {
                break;
            }
            self.memory.take_from_list(cpu, node, 1);
            self.latencies.record_allocation(self.machine.params.list_ps / 1000, 1);
            self.spaces[space].regions[region].set(page..page + 1, PageByte::on(node));
            self.counters.faulted_pages += 1;
            self.mm().add_to_lru_batch(cpu, group, node, 1);
            by_node[node] += 1;
            done.pages += 1;
            done.ns = done.ns.saturating_add(self.page_ps(cpu, node, 1) / 1000);
        }
        for (node, pages) in by_node.into_iter().enumerate().filter(|&(_, pages)| pages > 0) {
            self.begin_clearing(cpu, node, pages * page_bytes, done.ns);
        }
        done
    }

    /// Returns the cost of a base page that is in the list, in picoseconds. One fault brings in a
    /// folio.
    fn page_ps(&self, cpu: usize, node: usize, folio_pages: u64) -> u64 {
        let params = &self.machine.params;
        let fault_ps = params.fault_ns.saturating_mul(1000) / folio_pages.max(1);
        let clear_ps = self.clear_ps(cpu, node, params.page_bytes);
        clear_ps.saturating_add(fault_ps).saturating_add(params.list_ps)
    }

    /// Faults in at most `pages` base pages.
    fn fault_base(&mut self, fault: FaultSite, pages: u64, drained_ns: u64) -> PageProgress {
        let FaultSite { cpu, space, region, page, node } = fault;
        let now_ns = self.now_ns;
        let group = self.spaces[space].memcg;
        let most = pages.min(self.mm().lru_room(cpu, group, node));
        let begin = self.mm().flush_lru_batch(cpu, now_ns + drained_ns);
        let (take, end) = self.mm().refill_for(cpu, node, most, begin);
        let folio_pages = self.spaces[space].regions[region].folio_pages;
        let page_ps = self.page_ps(cpu, node, folio_pages);
        // At most one step; pages that are not used stay in the list.
        let take = take.min((STEP_NS * 1000 / page_ps.max(1)).max(1));
        self.memory.take_from_list(cpu, node, take as u32);
        let list_ns = self.machine.params.list_ps / 1000;
        self.latencies.record_allocation(end - begin + list_ns, 1);
        self.latencies.record_allocation(list_ns, take - 1);
        let work_ns = (u128::from(take) * u128::from(page_ps) / 1000) as u64;
        let ns = (end - self.now_ns).saturating_add(work_ns);
        let entry = &mut self.spaces[space].regions[region];
        entry.set(page..page + take, PageByte::on(node));
        self.counters.faulted_pages += take;
        self.mm().add_to_lru_batch(cpu, group, node, take);
        PageProgress { pages: take, ns }
    }

    /// Allocates a huge page directly from the zone. Returns the time that takes, in nanoseconds.
    fn fault_huge(&mut self, fault: FaultSite) -> u64 {
        let FaultSite { cpu, space, region, page, node } = fault;
        let now_ns = self.now_ns;
        let begin = self.mm().flush_deferred_frees(cpu, now_ns);
        let pages = huge_pages(self.machine.params.page_bytes);
        self.memory.zones[node].free_pages -= pages;
        let visited = self.mm().transfer_under_zone_lock(cpu, node, begin, 1, ZoneTransfer::Refill);
        self.latencies.record_allocation(visited - self.now_ns, 1);
        let end = self.mm().flush_lru_batch(cpu, visited);
        let work_ps = self.clear_ps(cpu, node, CHUNK_BYTES);
        let work_ns = self.machine.params.fault_huge_ns.saturating_add(work_ps / 1000);
        let ns = (end - self.now_ns).saturating_add(work_ns);
        self.spaces[space].regions[region].set_huge(page, PageByte::on(node));
        self.counters.faulted_pages += pages;
        self.counters.huge_faults += 1;
        let group = self.spaces[space].memcg;
        self.mm().add_to_lru_batch(cpu, group, node, 1);
        self.begin_clearing(cpu, node, CHUNK_BYTES, ns);
        ns
    }

    /// Returns the time to zero memory now, in picoseconds: longer where memory is far or busy.
    fn clear_ps(&self, cpu: usize, node: usize, bytes: u64) -> u64 {
        let place = &self.layout.cpus[cpu];
        let idle_ps = mul_div(bytes, 1_000_000_000_000, self.machine.params.clear_bytes_per_s);
        let (slow, even) = self.traffic.slowdown_ratio(place.complex, place.node, node);
        mul_div(idle_ps, slow, even)
    }

    /// Registers zeroing as traffic of the turn that begins.
    fn begin_clearing(&mut self, cpu: usize, node: usize, bytes: u64, ns: u64) {
        let place = &self.layout.cpus[cpu];
        let rate = mul_div(bytes, 1000, ns);
        self.cpus[cpu].begin_flow(
            &mut self.traffic,
            Flow { complex: place.complex, from: place.node, to: node, rate },
        );
    }
}
