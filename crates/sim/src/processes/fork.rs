//! Processes that fork: parent and child share all pages until a page is written to.
//!
//! A shared page belongs to the parent here and is marked as shared. When the parent writes to it,
//! the parent gets a copy and the old page becomes the child's. The child itself only lives for a
//! while. Pages that the parent unmaps meanwhile are freed at once.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::arithmetic::mul_div;
use crate::cpu::{CpuIndexSet, CpuTimeKind, GranuleRange, LineAccess, Op, Task, TaskId};
use crate::memory::{MemoryRegion, PageByte, SpaceId};
use crate::world::{TaskProgram, World};

/// Pages of a region that a child shares, one bit per page.
#[derive(Clone, Debug, Default)]
pub struct SharedPages(Vec<u64>);

impl SharedPages {
    /// Returns the present pages of a region as shared pages.
    pub fn of(region: &MemoryRegion) -> Self {
        let mut shared = Self(vec![0; region.pages.div_ceil(64) as usize]);
        let mut page = 0;
        while page < region.pages {
            let (byte, alike) = region.uniform_run(page, region.pages);
            if byte != PageByte::ABSENT {
                (page..page + alike)
                    .for_each(|page| shared.0[page as usize / 64] |= 1 << (page % 64));
            }
            page += alike;
        }
        shared
    }

    /// Returns whether a page is shared.
    pub fn contains(&self, page: u64) -> bool {
        self.0.get(page as usize / 64).is_some_and(|word| word >> (page % 64) & 1 == 1)
    }

    /// Ends the sharing of a range of pages.
    pub fn remove(&mut self, pages: Range<u64>) {
        for page in pages {
            if let Some(word) = self.0.get_mut(page as usize / 64) {
                *word &= !(1 << (page % 64));
            }
        }
    }

    /// Returns the shared pages of a range.
    pub fn shared_in(&self, pages: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        let mut page = pages.start;
        std::iter::from_fn(move || {
            while page < pages.end {
                let word = self.0.get(page as usize / 64).copied().unwrap_or(0) >> (page % 64);
                let found = page + u64::from(word.trailing_zeros());
                if word != 0 && found < pages.end {
                    page = found + 1;
                    return Some(found);
                }
                page = (page / 64 + 1) * 64;
            }
            None
        })
    }
}

/// The parent of each child, and the child of each parent.
#[derive(Debug, Default)]
pub struct ForkRelations {
    /// Parent by child.
    pub parents: BTreeMap<SpaceId, SpaceId>,
    /// Child by parent. A parent has at most one child at a time.
    pub children: BTreeMap<SpaceId, SpaceId>,
}

/// Program that lets processes fork, one after the other.
pub struct ForkTask {
    pub spaces: VecDeque<SpaceId>,
    /// Lifetime of the children, in nanoseconds.
    pub for_ns: u64,
}

/// Program of a child, which only lives for a while.
pub struct ForkedProcess {
    pub until_ns: u64,
}

impl World {
    /// Returns whether a process was forked by an action.
    pub(crate) fn is_child(&self, space: SpaceId) -> bool {
        self.fault_model.fork_relations.parents.contains_key(&space)
    }

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
            regions.push(copy);
            let shared = SharedPages::of(region);
            entries += shared.shared_in(0..region.pages).count() as u64;
            region.shared_with_child = Some(shared);
        }
        let cpuset = self.spaces[parent].cpuset.clone();
        let child = self.add_space(name, regions, group);
        self.spaces[child].cpuset = cpuset;
        self.fault_model.fork_relations.parents.insert(child, parent);
        self.fault_model.fork_relations.children.insert(parent, child);
        self.counters.forks += 1;
        let program = ForkedProcess { until_ns: self.now_ns.saturating_add(for_ns) };
        let task = Task::new(CpuIndexSet::of(0..self.cpus.len()));
        self.start_task(Task { space: Some(child), ..task }, Box::new(program));
        let protect_ns = entries.saturating_mul(self.machine.params.unmap_page_ns);
        protect_ns.saturating_add(self.shoot_down_tlb(cpu, parent, entries))
    }

    /// Ends the sharing between a process and its parent, if it has one.
    pub(crate) fn unshare_from_parent(&mut self, child: SpaceId) {
        let families = &mut self.fault_model.fork_relations;
        let Some(parent) = families.parents.get(&child) else { return };
        families.children.remove(parent);
        let regions = &mut self.spaces[*parent].regions;
        regions.iter_mut().for_each(|region| region.shared_with_child = None);
    }

    /// Copies the shared pages that a process wrote to in a turn through a part, and charges the
    /// time to the CPU. A stream writes to a page once for all of its lines.
    pub(crate) fn copy_on_write(&mut self, cpu: usize, lines: &LineAccess, done: u64) {
        let GranuleRange { space, region, first, granules } = lines.range;
        let entry = &self.spaces[space].regions[region];
        let Some(shared) = &entry.shared_with_child else { return };
        let pages = entry.pages_of_granules(first..first + granules);
        let count = shared.shared_in(pages.clone()).count() as u64;
        let params = &self.machine.params;
        let on_page = if lines.reused { 1 } else { (params.page_bytes / params.line_bytes).max(1) };
        let written = mul_div(done / on_page, u64::from(lines.pattern.writes_milli), 1000);
        let milli = mul_div(written * 1000, count, (pages.end - pages.start).max(1));
        let [rest, begin] = [(); 2].map(|()| self.fault_model.rng.next_u64());
        let hit = (milli / 1000 + u64::from(rest % 1000 < milli % 1000)).min(count) as usize;
        let entry = &self.spaces[space].regions[region];
        let Some(shared) = &entry.shared_with_child else { return };
        let middle = pages.start + begin % (pages.end - pages.start).max(1);
        let in_turn =
            shared.shared_in(middle..pages.end).chain(shared.shared_in(pages.start..middle));
        let in_sight = in_turn.filter(|&page| !entry.page(page).is_in_flight());
        let hit: Vec<_> = in_sight.take(hit).collect();
        let ns = self.copy_shared(cpu, (space, region), &hit);
        self.charge_interrupt(cpu, ns);
    }

    /// Copies shared pages for a process as far as there is memory; it retries the rest in its next
    /// turn. Returns the time that takes, in nanoseconds.
    pub(crate) fn copy_shared(
        &mut self,
        cpu: usize,
        place: (SpaceId, usize),
        pages: &[u64],
    ) -> u64 {
        let (space, region) = place;
        let Some(&child) = self.fault_model.fork_relations.children.get(&space) else { return 0 };
        let Some(&first) = pages.first() else { return 0 };
        let Some(to) = self.allocation_node(cpu, space, region, first, false) else { return 0 };
        let taken = self.allocate_pages(cpu, to, pages.len() as u64);
        for &page in &pages[..taken.pages as usize] {
            let old = self.spaces[space].regions[region].page(page).node();
            let old = old.expect("only pages that are there are shared");
            let mine = &mut self.spaces[space].regions[region];
            mine.set(page..page + 1, PageByte::on(to));
            mine.shared_with_child.iter_mut().for_each(|shared| shared.remove(page..page + 1));
            self.spaces[child].regions[region].set(page..page + 1, PageByte::on(old));
        }
        self.counters.copied_on_write += taken.pages;
        let params = &self.machine.params;
        let copy_ns = mul_div(params.page_bytes, 1_000_000_000, params.copy_bytes_per_s.max(1));
        let each_ns = params.fault_ns.saturating_add(copy_ns);
        taken.ns.saturating_add(taken.pages.saturating_mul(each_ns))
    }
}

impl TaskProgram for ForkTask {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        while let Some(space) = self.spaces.pop_front() {
            let has_child = world.fault_model.fork_relations.children.contains_key(&space);
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
