//! Growth and shrinking of a pool's memory: more when a zone runs dry, less when pages are unused.

use std::ops::Range;
use std::path::Path;

use nodeward_linux::sysfs;
use nodeward_model::{CpuId, NodeId};

use super::arena::{BlockKind, PageNo, PageOrigin};
use super::buddy_zone::{BuddyZone, ChunkNo};
use super::page_states::PageState;
use super::pool::{BULK_PAGES_MAX, POISONING, Pool, PoolChunk};
use crate::chunk::{CHUNK_BYTES, PageSize};
use crate::page_bits::ORDER_MAX;
use crate::sync::lock;
use crate::sys::Advice;

/// Minimum growth in base pages (2^6, 256 KiB): at that size the system call costs little beside
/// the pages.
const GROWTH_ORDER: u32 = 6;

/// If lists of other CPUs hold more than this fraction (1/8) of a zone's memory, they are tried
/// before the kernel. With the half chunk that growth may be ahead, a pool has at most 1.2 times
/// the memory in use at its peak: 1 / (1 - 1/8) = 1.14.
const LISTED_SHARE: usize = 8;

impl Pool {
    /// Finds runs for a zone that has none of this order: from lists of other CPUs if they hold
    /// much, else from fresh memory of the kernel. Finds none if there is no room.
    pub fn find_runs(
        &self,
        zone: usize,
        order: u32,
        most: usize,
        runs: &mut Vec<(ChunkNo, usize)>,
    ) {
        let _supply = lock(&self.zones[zone].growth_lock);
        let mut take = || {
            self.visit(zone).take(order, most, |chunk, page| runs.push((chunk, page)));
            !runs.is_empty()
        };
        if take() {
            return; // another thread has supplied it meanwhile
        }
        let held = self.lock_free_pages(zone).held_pages();
        if self.lists.pages(zone) * LISTED_SHARE > held
            && self.drain_cpu_lists(zone, order)
            && take()
        {
            return;
        }
        // Memory that came in is free for all: other threads may have taken it first.
        while self.grow(zone, order, most << order) {
            if take() {
                return;
            }
        }
        if self.drain_cpu_lists(zone, order) && take() {
            return;
        }
        // Free pages between used ones form no run, but take up room. Free them to make room for
        // one.
        if order > 0 && self.would_fit(zone, order) {
            self.discard_free(zone, usize::MAX);
            if self.grow(zone, order, 1 << order) {
                take();
            }
        }
    }

    /// Returns whether a zone would have room for a run if none of its pages were free.
    fn would_fit(&self, zone: usize, order: u32) -> bool {
        let free = self.lock_free_pages(zone);
        let in_use = free.held_pages() - free.free_pages();
        free.free_pages() > 0 && in_use + (1 << order) <= self.zones[zone].bounds.held_pages_max
    }

    /// Returns whether a zone is of another node than the CPU.
    fn is_remote(&self, cpu: CpuId, zone: usize) -> bool {
        self.topology.node_of_cpu(cpu) != Some(self.zones[zone].node)
    }

    /// Moves pages from lists of CPUs to a zone until it has a run of this order.
    fn drain_cpu_lists(&self, zone: usize, order: u32) -> bool {
        self.lists.for_each_unlocked(zone, |_, list| {
            if !self.lock_free_pages(zone).has(order) {
                self.drain_list(list, zone, order, BULK_PAGES_MAX);
            }
        });
        self.lock_free_pages(zone).has(order)
    }

    /// Brings pages into memory: enough for a run of this order, and up to `pages` if worth it.
    fn grow(&self, zone: usize, order: u32, pages: usize) -> bool {
        let Some(better) = self.growth_order(zone, order, pages) else { return false };
        let Some((chunk, pages)) = self.choose_growth(zone, order, better) else { return false };
        let first = self.arena.page(chunk, pages.start);
        let (mapping, bytes) = self.arena.bytes_of_pages(first, pages.len());
        let populated = mapping.populate(bytes.clone()).is_ok()
            && self.are_on_zone_node(zone, first, pages.len());
        if populated && POISONING {
            self.poison(first, pages.len());
        }
        if populated {
            self.arena.set_all(first, pages.len(), PageState::FREE);
            self.count_held(pages.len());
        } else {
            // Pages that came in all the same would be counted nowhere.
            mapping.advise(bytes, Advice::Discard).ok();
        }
        let grown = if populated { pages } else { 0..0 };
        self.lock_free_pages(zone).finish_growth(chunk, grown);
        populated
    }

    /// Returns whether pages that just came into memory are on the zone's node. If that node has no
    /// more room, or no contiguous huge page, the kernel takes them from another one.
    fn are_on_zone_node(&self, zone: usize, first: PageNo, pages: usize) -> bool {
        let node = self.zones[zone].node;
        let start = self.arena.address(first).as_ptr() as u64;
        let addresses = (start..).step_by(self.arena.page_bytes()).take(pages);
        let came_home = !self.has_several_nodes() || self.headroom.are_on_node(node, addresses);
        if !came_home {
            self.headroom.invalidate(node);
        }
        came_home
    }

    /// Returns whether pages may come from several nodes.
    fn has_several_nodes(&self) -> bool {
        self.topology.nodes_with_memory().len() > 1
    }

    /// Returns the order by which a zone may grow at once: `pages`, but at least what is worth a
    /// system call, at most what its bounds leave, and never less than a run of `order`. Returns
    /// `None` if there is no room.
    fn growth_order(&self, zone: usize, order: u32, pages: usize) -> Option<u32> {
        let of_node = &self.zones[zone];
        let room =
            of_node.bounds.held_pages_max.saturating_sub(self.lock_free_pages(zone).held_pages());
        let most = room.checked_ilog2().filter(|most| *most >= order)?;
        let bounded = |wish: u32| wish.min(self.arena.chunk_pages().ilog2()).min(most).max(order);
        let worth = match of_node.size {
            PageSize::Base => GROWTH_ORDER,
            PageSize::Huge => ORDER_MAX,
        };
        // No smaller steps when there is less room: page by page the pool would take the last
        // memory that the program, or its control group, has.
        let wishes = [bounded(pages.ilog2().max(worth)), bounded(worth)];
        let has_room = |order: &u32| self.headroom.reserve(of_node.node, 1 << order, || ());
        wishes.into_iter().find(has_room)
    }

    /// Chooses missing pages to bring into memory, in a chunk that has some, or in a new one.
    fn choose_growth(
        &self,
        zone: usize,
        order: u32,
        better: u32,
    ) -> Option<(ChunkNo, Range<usize>)> {
        let found = self.lock_free_pages(zone).begin_growth(order, better);
        if found.is_some() {
            return found;
        }
        let of_node = &self.zones[zone];
        let node = Some(of_node.node).filter(|_| self.has_several_nodes());
        let kind = BlockKind { size: of_node.size, origin: PageOrigin::Node(node) };
        let (chunk, slot) = self.arena.take_empty(kind, 0).ok()?;
        self.arena.set_zone(chunk, zone);
        let mut free = self.lock_free_pages(zone);
        free.insert_chunk(chunk, PoolChunk { slot, kind }, 0, true);
        free.begin_growth(order, better)
    }

    /// Frees at most `most` free pages of a zone to the kernel; returns how many.
    pub fn shrink(&self, zone: usize, most: usize) -> usize {
        let _supply = lock(&self.zones[zone].growth_lock);
        self.discard_free(zone, most)
    }

    /// As [`Pool::shrink`], for a caller that holds `supply`.
    fn discard_free(&self, zone: usize, most: usize) -> usize {
        let mut left = most;
        while left > 0 {
            let begun = self.lock_free_pages(zone).begin_shrink(left);
            let Some((chunk, pages)) = begun else { break };
            let first = self.arena.page(chunk, pages.start);
            self.arena.set_all(first, pages.len(), PageState::ABSENT);
            let (mapping, bytes) = self.arena.bytes_of_pages(first, pages.len());
            if mapping.advise(bytes, Advice::Discard).is_err() {
                // Locked (before Linux 5.18), or the program unmapped memory that is not its own.
                self.arena.set_all(first, pages.len(), PageState::FREE);
                self.lock_free_pages(zone).undo_shrink(chunk, pages);
                break;
            }
            self.count_gone(pages.len());
            left -= pages.len();
            let emptied = self.lock_free_pages(zone).finish_shrink(chunk, pages);
            emptied.into_iter().for_each(|shell| self.return_empty(shell));
        }
        most - left
    }

    /// Takes back a chunk that has no pages any more.
    fn return_empty(&self, mut shell: PoolChunk) {
        // If mremap(2) replaced our mapping with another one, that is emptied, too.
        match shell.slot.discard(0..CHUNK_BYTES) {
            Ok(()) => self.arena.give_empty(shell.kind, shell.slot),
            Err(_) => std::mem::forget(shell), // the memory there now is not ours
        }
    }

    /// Frees all free pages to the kernel; returns how many.
    pub fn give_back(&self) -> usize {
        let give = |zone| {
            self.lists.for_each(zone, |list| self.drain_list(list, zone, 0, list.pages()));
            self.shrink(zone, usize::MAX)
        };
        (0..self.zones.len()).map(give).sum()
    }

    /// Takes a chunk whose pages are all free and on `node`, and returns it with the number of
    /// pages. Prefers one of section `lane` among those used most recently.
    pub fn take_chunk(
        &self,
        node: NodeId,
        size: PageSize,
        lane: usize,
    ) -> Option<(PoolChunk, usize)> {
        self.take_idle_chunk(node, size, |free| {
            free.take_idle(|chunk| self.arena.is_in_section_of(chunk, lane))
        })
    }

    /// Takes a chunk like [`Self::take_chunk`] that came from a migration and has room for `pages`
    /// more pages.
    pub fn take_roomy_chunk(
        &self,
        (node, size): (NodeId, PageSize),
        pages: usize,
        lane: usize,
    ) -> Option<(PoolChunk, usize)> {
        self.take_idle_chunk(node, size, |free| {
            let is_emptied = |chunk: &PoolChunk| chunk.kind.origin == PageOrigin::Regions;
            free.take_roomy(pages, is_emptied, |chunk| self.arena.is_in_section_of(chunk, lane))
        })
    }

    fn take_idle_chunk(
        &self,
        node: NodeId,
        size: PageSize,
        take: impl FnOnce(&mut BuddyZone<PoolChunk>) -> Option<(PoolChunk, usize)>,
    ) -> Option<(PoolChunk, usize)> {
        let zone = self.find_zone(node, size)?;
        let taken = take(&mut self.lock_free_pages(zone));
        let (shell, pages) = taken?;
        let first = self.arena.page(self.arena.chunk_of(&shell.slot), 0);
        self.arena.set_all(first, pages, PageState::ABSENT);
        self.count_gone(pages);
        Some((shell, pages))
    }

    /// Returns whether such a chunk exists.
    pub fn has_chunk(&self, node: NodeId, size: PageSize) -> bool {
        self.find_zone(node, size).is_some_and(|zone| self.lock_free_pages(zone).has_idle())
    }

    /// Adds a chunk whose first `pages` pages are in memory on `node` and have no owner. Returns
    /// the chunk if the node would then keep more than it should.
    pub fn keep_chunk(&self, shell: PoolChunk, pages: usize, node: NodeId) -> Option<PoolChunk> {
        let Some(zone) = self.find_zone(node, shell.kind.size) else { return Some(shell) };
        let chunk = self.arena.chunk_of(&shell.slot);
        let mut free = self.lock_free_pages(zone);
        if free.free_pages() + pages > self.zones[zone].bounds.keep_pages {
            return Some(shell);
        }
        self.arena.set_zone(chunk, zone);
        self.arena.set_all(self.arena.page(chunk, 0), pages, PageState::UNPOISONED);
        free.insert_chunk(chunk, shell, pages, false);
        self.count_held(pages);
        None
    }

    fn find_zone(&self, node: NodeId, size: PageSize) -> Option<usize> {
        self.zones.iter().position(|zone| (zone.node, zone.size) == (node, size))
    }

    /// Reacts to short memory: lists shrink as their tuners decide, and zones free everything.
    /// Returns the number of pages freed.
    pub fn shrink_for_pressure(&self) -> usize {
        let give = |zone| {
            self.lists.for_each_unlocked(zone, |_, list| {
                let too_many = list.shrink();
                self.drain_list(list, zone, 0, too_many);
            });
            self.shrink(zone, usize::MAX)
        };
        (0..self.zones.len()).map(give).sum()
    }

    /// Does the periodic work: unused lists give pages back to their zones, and zones free to the
    /// kernel the pages that were unused during the whole period.
    pub fn tick(&self) {
        // If the online CPUs cannot be read, all count as online.
        let cpus = sysfs::online_cpus(Path::new("/")).ok();
        let is_online = |cpu| cpus.as_ref().is_none_or(|cpus| cpus.contains(cpu));
        for zone in 0..self.zones.len() {
            let mut thinned = 0;
            let unneeded = self.lock_free_pages(zone).take_least_free();
            self.lists.for_each_unlocked(zone, |cpu, list| {
                let before = list.pages();
                let too_many = match is_online(cpu) {
                    true => list.tick(self.is_remote(cpu, zone), self.now_ms()),
                    false => before,
                };
                self.drain_list(list, zone, 0, too_many);
                thinned += (before - list.pages()) as usize;
            });
            let keep = self.zones[zone].bounds.keep_pages;
            self.shrink(zone, (unneeded + thinned).saturating_sub(keep));
        }
    }
}
