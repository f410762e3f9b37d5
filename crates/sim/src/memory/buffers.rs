//! Buffers of the kernel, such as those of messages: runs of pages that lists give and take without
//! a fault, and that are not zeroed.

use nodeward_policy::pcp::Tuner;

use super::zone::Visit;
use crate::world::World;

/// Buffers that were taken, or given back, at a stretch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffers {
    /// The node that they are on, by index.
    pub node: usize,
    /// How many.
    pub count: u64,
    /// How long it took.
    pub ns: u64,
}

impl World {
    /// Takes buffers of `run` pages each from a CPU's list, at most so many: until the list needs
    /// the zone again. None if no node has any.
    pub(crate) fn take_buffers(&mut self, cpu: usize, run: u32, most: u64) -> Buffers {
        let nearest = &self.layout.nearest[self.layout.node_of(cpu)];
        let has_room = |&node: &usize| {
            let zone = &self.memory.zones[node];
            let there = zone.free_pages.max(self.memory.in_list(cpu, node).into());
            !zone.off && there >= u64::from(run)
        };
        let Some(node) = nearest.iter().copied().find(has_room) else { return Buffers::default() };
        let end = self.fill_list(cpu, node, run, self.now_ns);
        let count = most.min(u64::from(self.memory.in_list(cpu, node) / run));
        let list_ps = self.machine.params.list_ps;
        for _ in 0..count {
            self.memory.take_run(cpu, node, run);
        }
        self.memory.taken[node] += count * u64::from(run);
        if count > 0 {
            let visit_ns = end - self.now_ns;
            self.latencies.allocated(visit_ns + list_ps / 1000, 1);
            self.latencies.allocated(list_ps / 1000, count - 1);
        }
        Buffers { node, count, ns: end - self.now_ns + count * list_ps / 1000 }
    }

    /// Gives buffers of `run` pages each back to a CPU's list, at most so many: until the list
    /// gives some back to the zone.
    pub(crate) fn give_buffers(&mut self, cpu: usize, node: usize, run: u32, most: u64) -> Buffers {
        let begin = self.settle_zone(cpu, self.now_ns);
        let (list_ps, now_ms) = (self.machine.params.list_ps, self.now_ns / 1_000_000);
        let (mut count, mut back) = (0, 0);
        while count < most && back == 0 {
            back = self.memory.put_run(cpu, node, run, now_ms);
            count += 1;
        }
        let mut end = begin;
        if back > 0 {
            let runs = u64::from(back).div_ceil(run.into());
            end = self.visit_zone(cpu, node, begin, runs, Visit::GiveBack);
        }
        self.latencies.freed(end - self.now_ns + list_ps / 1000, 1);
        self.latencies.freed(list_ps / 1000, count.saturating_sub(1));
        Buffers { node, count, ns: end - self.now_ns + count * list_ps / 1000 }
    }

    /// Gives buffers back that nobody is left for.
    pub(crate) fn discard_buffers(&mut self, node: usize, run: u32, count: u64) {
        self.memory.taken[node] -= count * u64::from(run);
        self.memory.zones[node].free_pages += count * u64::from(run);
    }
}

impl super::Memory {
    /// Takes one allocation of so many pages out of a list.
    fn take_run(&mut self, cpu: usize, node: usize, run: u32) {
        let (list, zone) = self.list(cpu, node);
        list.idle_ticks = 0;
        list.tuner.allocated(run);
        list.count -= run;
        zone.listed_pages -= u64::from(run);
    }

    /// Puts one into it. Returns how many pages go on to the zone, which has them then.
    fn put_run(&mut self, cpu: usize, node: usize, run: u32, now_ms: u64) -> u32 {
        self.taken[node] -= u64::from(run);
        let (list, zone) = self.list(cpu, node);
        list.idle_ticks = 0;
        let is_short = zone.free_pages < zone.short_below;
        let back = list.put(&zone.limits, run, is_short, now_ms);
        let back = back.next_multiple_of(run).min(list.count);
        list.count -= back;
        zone.free_pages += u64::from(back);
        zone.listed_pages += u64::from(run);
        zone.listed_pages -= u64::from(back);
        back
    }
}
