//! Processes that fork: parent and child share all pages until a page is written to.
//!
//! A shared page belongs to the parent here and is marked as shared. When the parent writes to it,
//! the parent gets a copy and the old page becomes the child's. The child itself only lives for a
//! while. Pages that the parent unmaps meanwhile are freed at once.

use std::collections::VecDeque;

use crate::cpu::{Op, Task};
use crate::hardware::CpuIndexSet;
use crate::ids::{SpaceId, TaskId};
use crate::memory::MemoryRegion;
use crate::statistics::CpuTimeKind;
use crate::world::{TaskProgram, World};

/// Program that lets processes fork, one after the other.
struct ForkTask {
    spaces: VecDeque<SpaceId>,
    /// Lifetime of the children, in nanoseconds.
    for_ns: u64,
}

/// Program of a child, which only lives for a while.
struct ForkedProcess {
    until_ns: u64,
}

impl World {
    /// Lets processes fork.
    pub(crate) fn fork_all(&mut self, spaces: VecDeque<SpaceId>, for_ns: u64) {
        self.start_kernel_task(None, Box::new(ForkTask { spaces, for_ns }));
    }

    /// Creates a process's child. Returns the time that takes, in nanoseconds: every entry becomes
    /// read-only.
    pub(crate) fn fork(&mut self, cpu: usize, parent: SpaceId, for_ns: u64) -> u64 {
        let (page_bytes, nodes) = (self.machine.params.page_bytes, self.machine.nodes.len());
        let space = &mut self.spaces[parent];
        let (name, group) = (space.name.clone(), space.memcg);
        let (mut regions, mut entries) = (Vec::new(), 0);
        for region in &mut space.regions {
            let granules = region.granules() as u64;
            let mut copy =
                MemoryRegion::new(region.start, region.pages, page_bytes, nodes, granules);
            copy.placement = region.placement.clone();
            copy.interleaving = region.interleaving;
            regions.push(copy);
            let shared = region.present_pages();
            entries += shared.set_in(0..region.pages).count() as u64;
            region.shared_with_child = Some(shared);
        }
        let cpuset = self.spaces[parent].cpuset.clone();
        let segments = self.spaces[parent].segments.clone();
        let child = self.add_space(name, regions, group);
        self.spaces[child].cpuset = cpuset;
        segments.into_iter().for_each(|mapping| self.map_segment(child, mapping));
        self.fork_relations.parents.insert(child, parent);
        self.fork_relations.children.insert(parent, child);
        self.counters.forks += 1;
        let program = ForkedProcess { until_ns: self.now_ns.saturating_add(for_ns) };
        let task = Task::new(CpuIndexSet::of(0..self.cpus.len()));
        self.start_task(Task { space: Some(child), ..task }, Box::new(program));
        let protect_ns = entries.saturating_mul(self.machine.params.unmap_page_ns);
        protect_ns.saturating_add(self.shoot_down_tlb(cpu, parent, entries))
    }

    /// Ends the sharing between a process and its parent, if it has one.
    pub(crate) fn unshare_from_parent(&mut self, child: SpaceId) {
        let families = &mut self.fork_relations;
        let Some(parent) = families.parents.get(&child) else { return };
        families.children.remove(parent);
        let regions = &mut self.spaces[*parent].regions;
        regions.iter_mut().for_each(|region| region.shared_with_child = None);
    }
}

impl TaskProgram for ForkTask {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        while let Some(space) = self.spaces.pop_front() {
            let has_child = world.fork_relations.children.contains_key(&space);
            if !has_child && !world.spaces[space].ended {
                let cpu = world.tasks[task as usize].cpu;
                let ns = world.fork(cpu, space, self.for_ns);
                return Op::Busy(CpuTimeKind::Kernel, ns.max(1));
            }
        }
        Op::Exit
    }
}

impl TaskProgram for ForkedProcess {
    fn next(&mut self, world: &mut World, _task: TaskId) -> Op {
        if world.now_ns < self.until_ns { Op::Sleep(self.until_ns) } else { Op::Exit }
    }
}
