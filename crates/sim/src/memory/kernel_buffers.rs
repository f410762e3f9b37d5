//! Kernel buffers, such as those of messages: runs of pages that are allocated from per-CPU lists
//! without a fault and are not zeroed.

use nodeward_policy::pcp::Tuner;

use super::memory_manager::MemoryManager;
use super::physical_memory::PhysicalMemory;
use super::zone::ZoneTransfer;

/// Buffers that were allocated, or freed, in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferProgress {
    /// The index of their node.
    pub node: usize,
    /// The number of buffers.
    pub count: u64,
    /// The time it took, in nanoseconds.
    pub ns: u64,
}

impl MemoryManager<'_> {
    /// Allocates up to `most` buffers of `run` pages each from a CPU's list, until the list needs
    /// the zone again. `None` if no node has any.
    pub fn allocate_buffers(&mut self, cpu: usize, run: u32, most: u64) -> BufferProgress {
        let nearest = &self.layout.memory_nodes_by_distance[self.layout.node_of(cpu)];
        let has_room = |&node: &usize| {
            let zone = &self.memory.zones[node];
            let there = zone.free_pages.max(self.memory.pages_in_list(cpu, node).into());
            !zone.is_offline && there >= u64::from(run)
        };
        let Some(node) = nearest.iter().copied().find(has_room) else {
            return BufferProgress::default();
        };
        let end = self.fill_list(cpu, node, run, self.now_ns);
        let count = most.min(u64::from(self.memory.pages_in_list(cpu, node) / run));
        let list_ps = self.machine.params.list_ps;
        for _ in 0..count {
            self.memory.allocate_run(cpu, node, run);
        }
        self.memory.kernel_pages[node] += count * u64::from(run);
        if count > 0 {
            let visit_ns = end - self.now_ns;
            self.latencies.record_allocation(visit_ns + list_ps / 1000, 1);
            self.latencies.record_allocation(list_ps / 1000, count - 1);
        }
        BufferProgress { node, count, ns: end - self.now_ns + count * list_ps / 1000 }
    }

    /// Frees up to `most` buffers of `run` pages each to a CPU's list, until the list returns pages
    /// to the zone.
    pub fn free_buffers(&mut self, cpu: usize, node: usize, run: u32, most: u64) -> BufferProgress {
        let begin = self.flush_deferred_frees(cpu, self.now_ns);
        let (list_ps, now_ms) = (self.machine.params.list_ps, self.now_ns / 1_000_000);
        let (mut count, mut back) = (0, 0);
        while count < most && back == 0 {
            back = self.memory.free_run(cpu, node, run, now_ms);
            count += 1;
        }
        let mut end = begin;
        if back > 0 {
            let runs = u64::from(back).div_ceil(run.into());
            end = self.transfer_under_zone_lock(cpu, node, begin, runs, ZoneTransfer::Free);
        }
        self.latencies.record_free(end - self.now_ns + list_ps / 1000, 1);
        self.latencies.record_free(list_ps / 1000, count.saturating_sub(1));
        BufferProgress { node, count, ns: end - self.now_ns + count * list_ps / 1000 }
    }
}

impl PhysicalMemory {
    /// Takes one allocation of `run` pages from a list.
    fn allocate_run(&mut self, cpu: usize, node: usize, run: u32) {
        let (list, zone) = self.list_and_zone(cpu, node);
        list.idle_ticks = 0;
        list.tuner.allocated(run);
        list.count -= run;
        zone.listed_pages -= u64::from(run);
    }

    /// Puts a run of pages into a list. Returns the number of pages that go on to the zone, which
    /// then has them.
    fn free_run(&mut self, cpu: usize, node: usize, run: u32, now_ms: u64) -> u32 {
        self.kernel_pages[node] -= u64::from(run);
        let (list, zone) = self.list_and_zone(cpu, node);
        list.idle_ticks = 0;
        let is_short = zone.free_pages < zone.high_watermark;
        let back = list.free(&zone.limits, run, is_short, now_ms);
        let back = back.next_multiple_of(run).min(list.count);
        list.count -= back;
        zone.free_pages += u64::from(back);
        zone.listed_pages += u64::from(run);
        zone.listed_pages -= u64::from(back);
        back
    }

    /// Frees buffers whose owner has ended.
    pub fn discard_buffers(&mut self, node: usize, run: u32, count: u64) {
        self.kernel_pages[node] -= count * u64::from(run);
        self.zones[node].free_pages += count * u64::from(run);
    }
}
