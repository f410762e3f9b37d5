//! Page faults: the source of fresh pages, and the cost.

use std::ops::Range;

use nodeward_model::Nodemask;
use nodeward_policy::pcp::Tuner;
use nodeward_scenario::MemoryPlacement;

use crate::arithmetic::mul_div;
use crate::faults::RETRY_NS;
use crate::hardware::Flow;
use crate::memory::{
    CHUNK_BYTES, PageByte, PageProgress, STEP_NS, SpaceId, ZoneTransfer, huge_pages,
};
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
    /// If it has no pages, there was no memory: the process then ends, as when Linux kills it.
    pub(crate) fn fault_in(
        &mut self,
        cpu: usize,
        space: SpaceId,
        region: usize,
        pages: Range<u64>,
    ) -> PageProgress {
        let entry = &self.spaces[space].regions[region];
        // At most as far as one step goes.
        let step = STEP_NS / self.machine.params.fault_ns.max(1) + 1;
        let end = pages.end.min(pages.start.saturating_add(step));
        let (byte, alike) = entry.uniform_run(pages.start, end);
        if byte != PageByte::ABSENT {
            return PageProgress { pages: alike, ns: 0 };
        }
        let fails = self.allocation_fails();
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
            return PageProgress { pages: chunk.end.min(pages.end) - pages.start, ns };
        }
        let find = |world: &Self| world.allocation_node(cpu, space, region, pages.start, false);
        let mut drained_ns = 0;
        let node = find(self).or_else(|| {
            drained_ns = self.drain_all_lists(cpu);
            find(self)
        });
        let Some(node) = node else {
            self.counters.oom_kills += 1;
            self.kill_process(space);
            return PageProgress::default();
        };
        drained_ns += if fails { RETRY_NS } else { 0 };
        let fault = FaultSite { cpu, space, region, page: pages.start, node };
        let placement = &self.spaces[space].regions[region].placement;
        if matches!(placement, MemoryPlacement::Interleave(_)) {
            let first = self.fault_base(fault, 1, drained_ns);
            return self.fault_interleaved(fault, pages.start..end, first);
        }
        let done = self.fault_base(fault, alike, drained_ns);
        let here = self.layout.node_of(cpu);
        if node != here && !self.spaces[space].regions[region].placement.is_memory_policy() {
            self.memory.zones[here].foreign_pages += done.pages;
        }
        self.begin_clearing(cpu, node, done.pages * self.machine.params.page_bytes, done.ns);
        done
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
            if self.memory.pages_in_list(cpu, node) == 0 || self.lru_room(cpu, group, node) <= 1 {
                break;
            }
            self.memory.take_from_list(cpu, node, 1);
            self.latencies.record_allocation(self.machine.params.list_ps / 1000, 1);
            self.spaces[space].regions[region].set(page..page + 1, PageByte::on(node));
            self.counters.faulted_pages += 1;
            self.add_to_lru_batch(cpu, group, node, 1);
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
        let group = self.spaces[space].memcg;
        let most = pages.min(self.lru_room(cpu, group, node));
        let begin = self.flush_lru_batch(cpu, self.now_ns + drained_ns);
        let (take, end) = self.refill_for(cpu, node, most, begin);
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
        self.add_to_lru_batch(cpu, group, node, take);
        PageProgress { pages: take, ns }
    }

    /// Fills a CPU's list from the zone at time `at_ns` if it is empty. Returns the number of
    /// wanted pages that are in the list (1 or more if the node has any), and when.
    pub(crate) fn refill_for(
        &mut self,
        cpu: usize,
        node: usize,
        wanted: u64,
        at_ns: u64,
    ) -> (u64, u64) {
        let end = self.fill_list(cpu, node, 1, at_ns);
        let there = if self.memory.zones[node].is_offline {
            0
        } else {
            self.memory.pages_in_list(cpu, node)
        };
        (wanted.min(u64::from(there)), end)
    }

    /// Fills a CPU's list until it has a run of `run` pages, if the node has any. Returns when.
    pub(crate) fn fill_list(&mut self, cpu: usize, node: usize, run: u32, at_ns: u64) -> u64 {
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

    /// Allocates a huge page directly from the zone. Returns the time that takes, in nanoseconds.
    fn fault_huge(&mut self, fault: FaultSite) -> u64 {
        let FaultSite { cpu, space, region, page, node } = fault;
        let begin = self.flush_deferred_frees(cpu, self.now_ns);
        let pages = huge_pages(self.machine.params.page_bytes);
        self.memory.zones[node].free_pages -= pages;
        let visited = self.transfer_under_zone_lock(cpu, node, begin, 1, ZoneTransfer::Refill);
        self.latencies.record_allocation(visited - self.now_ns, 1);
        let end = self.flush_lru_batch(cpu, visited);
        let work_ps = self.clear_ps(cpu, node, CHUNK_BYTES);
        let work_ns = self.machine.params.fault_huge_ns.saturating_add(work_ps / 1000);
        let ns = (end - self.now_ns).saturating_add(work_ns);
        self.spaces[space].regions[region].set_huge(page, PageByte::on(node));
        self.counters.faulted_pages += pages;
        self.counters.huge_faults += 1;
        let group = self.spaces[space].memcg;
        self.add_to_lru_batch(cpu, group, node, 1);
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
        self.begin_flow(cpu, Flow { complex: place.complex, from: place.node, to: node, rate });
    }

    /// Returns whether a node is in a process's cpuset.
    pub(crate) fn cpuset_allows(&self, space: SpaceId, node: usize) -> bool {
        let cpuset = self.spaces[space].cpuset.as_ref();
        cpuset.is_none_or(|nodes| nodes.contains(self.layout.node_ids[node]))
    }

    /// Returns the node that a fresh page comes from. `None` if no allowed node has room.
    ///
    /// As in the kernel, the next node comes before other CPUs' lists, and base pages of the node
    /// come before huge ones of other nodes.
    pub(crate) fn allocation_node(
        &self,
        cpu: usize,
        space: SpaceId,
        region: usize,
        page: u64,
        huge: bool,
    ) -> Option<usize> {
        let here = self.memory_home(space).unwrap_or(self.layout.node_of(cpu));
        let nearest = &self.layout.memory_nodes_by_distance[here];
        let pages = huge_pages(self.machine.params.page_bytes);
        let has_room = |&node: &usize| match huge {
            _ if self.memory.zones[node].is_offline => false,
            _ if !self.cpuset_allows(space, node) => false,
            true => self.memory.zones[node].free_pages >= pages,
            false => {
                self.memory.zones[node].free_pages > 0 || self.memory.pages_in_list(cpu, node) > 0
            }
        };
        let is_in = |nodes: &Nodemask, node: usize| nodes.contains(self.layout.node_ids[node]);
        match &self.spaces[space].regions[region].placement {
            MemoryPlacement::FirstTouch
            | MemoryPlacement::PopulatedOn(_)
            | MemoryPlacement::PopulatedFarthest => {
                let mut nodes = nearest.iter().copied().take(if huge { 1 } else { usize::MAX });
                nodes.find(has_room)
            }
            MemoryPlacement::Bind(nodes) => {
                nearest.iter().copied().find(|&node| is_in(nodes, node) && has_room(&node))
            }
            MemoryPlacement::Interleave(nodes) => {
                let index = if huge { page / pages } else { page };
                let turn = (index % nodes.len().max(1) as u64) as usize;
                let id = nodes.iter().nth(turn)?;
                let first = self.layout.node_ids.iter().position(|&node| node == id);
                let others = nearest.iter().copied().filter(|&node| is_in(nodes, node));
                first.into_iter().chain(others).find(has_room)
            }
        }
    }
}
