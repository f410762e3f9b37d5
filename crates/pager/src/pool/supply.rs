//! Growth and shrinking of a pool's memory: more when a zone runs dry, less when pages are unused.

use std::ops::Range;
use std::path::Path;

use nodeward_linux::sysfs;
use nodeward_model::{CpuId, NodeId};

use super::arena::{Kind, Origin, PageNo};
use super::pool::{BULK_PAGES_MAX, POISONED, Pool, Shell};
use super::states::State;
use super::zone::ChunkNo;
use crate::page_bits::ORDER_MAX;
use crate::sync::lock;
use crate::sys::Advice;
use crate::{CHUNK_BYTES, PageSize};

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
    pub fn supply(&self, zone: usize, order: u32, most: usize, runs: &mut Vec<(ChunkNo, usize)>) {
        let _supply = lock(&self.zones[zone].supply);
        let mut take = || {
            self.visit(zone).take(order, most, |chunk, page| runs.push((chunk, page)));
            !runs.is_empty()
        };
        if take() {
            return; // another thread has supplied it meanwhile
        }
        let held = self.free_pages(zone).held_pages();
        if self.lists.pages(zone) * LISTED_SHARE > held && self.collect(zone, order) && take() {
            return;
        }
        // Memory that came in is free for all: other threads may have taken it first.
        while self.grow(zone, order, most << order) {
            if take() {
                return;
            }
        }
        if self.collect(zone, order) && take() {
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
        let free = self.free_pages(zone);
        let in_use = free.held_pages() - free.free_pages();
        free.free_pages() > 0 && in_use + (1 << order) <= self.zones[zone].bounds.held_pages_max
    }

    /// Returns whether a zone is of another node than the CPU.
    fn is_foreign(&self, cpu: CpuId, zone: usize) -> bool {
        self.topology.node_of_cpu(cpu) != Some(self.zones[zone].node)
    }

    /// Moves pages from lists of CPUs to a zone until it has a run of this order.
    fn collect(&self, zone: usize, order: u32) -> bool {
        self.lists.each(zone, |_, list| {
            if !self.free_pages(zone).has(order) {
                self.thin_out(list, zone, order, BULK_PAGES_MAX);
            }
        });
        self.free_pages(zone).has(order)
    }

    /// Brings pages into memory: enough for a run of this order, and up to `pages` if worth it.
    fn grow(&self, zone: usize, order: u32, pages: usize) -> bool {
        let Some(better) = self.growth_order(zone, order, pages) else { return false };
        let Some((chunk, pages)) = self.growth(zone, order, better) else { return false };
        let first = self.arena.page(chunk, pages.start);
        let (mapping, bytes) = self.arena.place(first, pages.len());
        let populated =
            mapping.populate(bytes.clone()).is_ok() && self.came_home(zone, first, pages.len());
        if populated && POISONED {
            self.poison(first, pages.len());
        }
        if populated {
            self.arena.set_all(first, pages.len(), State::FREE);
            self.count_held(pages.len());
        } else {
            // Pages that came in all the same would be counted nowhere.
            mapping.advise(bytes, Advice::Discard).ok();
        }
        let grown = if populated { pages } else { 0..0 };
        self.free_pages(zone).grown(chunk, grown);
        populated
    }

    /// Returns whether pages that just came into memory are on the zone's node. If that node has no
    /// more room, or no contiguous huge page, the kernel takes them from another one.
    fn came_home(&self, zone: usize, first: PageNo, pages: usize) -> bool {
        let node = self.zones[zone].node;
        let start = self.arena.address(first).as_ptr() as u64;
        let addresses = (start..).step_by(self.arena.page_bytes()).take(pages);
        let came_home = !self.has_nodes() || self.rooms.are_on(node, addresses);
        if !came_home {
            self.rooms.look_again(node);
        }
        came_home
    }

    /// Returns whether pages may come from several nodes.
    fn has_nodes(&self) -> bool {
        self.topology.nodes_with_memory().len() > 1
    }

    /// Returns the order by which a zone may grow at once: `pages`, but at least what is worth a
    /// system call, at most what its bounds leave, and never less than a run of `order`. Returns
    /// `None` if there is no room.
    fn growth_order(&self, zone: usize, order: u32, pages: usize) -> Option<u32> {
        let of_node = &self.zones[zone];
        let room = of_node.bounds.held_pages_max.saturating_sub(self.free_pages(zone).held_pages());
        let most = room.checked_ilog2().filter(|most| *most >= order)?;
        let bounded = |wish: u32| wish.min(self.arena.chunk_pages().ilog2()).min(most).max(order);
        let worth = match of_node.size {
            PageSize::Base => GROWTH_ORDER,
            PageSize::Huge => ORDER_MAX,
        };
        // No smaller steps when there is less room: page by page the pool would take the last
        // memory that the program, or its control group, has.
        let wishes = [bounded(pages.ilog2().max(worth)), bounded(worth)];
        let has_room = |order: &u32| self.rooms.room_for(of_node.node, 1 << order, || ());
        wishes.into_iter().find(has_room)
    }

    /// Chooses missing pages to bring into memory, in a chunk that has some, or in a new one.
    fn growth(&self, zone: usize, order: u32, better: u32) -> Option<(ChunkNo, Range<usize>)> {
        let found = self.free_pages(zone).begin_growth(order, better);
        if found.is_some() {
            return found;
        }
        let of_node = &self.zones[zone];
        let node = Some(of_node.node).filter(|_| self.has_nodes());
        let kind = Kind { size: of_node.size, origin: Origin::Node(node) };
        let (chunk, slot) = self.arena.take_empty(kind, 0).ok()?;
        self.arena.set_zone(chunk, zone);
        let mut free = self.free_pages(zone);
        free.adopt(chunk, Shell { slot, kind }, 0, true);
        free.begin_growth(order, better)
    }

    /// Frees at most `most` free pages of a zone to the kernel; returns how many.
    pub fn shrink(&self, zone: usize, most: usize) -> usize {
        let _supply = lock(&self.zones[zone].supply);
        self.discard_free(zone, most)
    }

    /// As [`Pool::shrink`], for a caller that holds `supply`.
    fn discard_free(&self, zone: usize, most: usize) -> usize {
        let mut left = most;
        while left > 0 {
            let begun = self.free_pages(zone).begin_shrink(left);
            let Some((chunk, pages)) = begun else { break };
            let first = self.arena.page(chunk, pages.start);
            self.arena.set_all(first, pages.len(), State::AWAY);
            let (mapping, bytes) = self.arena.place(first, pages.len());
            if mapping.advise(bytes, Advice::Discard).is_err() {
                // Locked (before Linux 5.18), or the program unmapped memory that is not its own.
                self.arena.set_all(first, pages.len(), State::FREE);
                self.free_pages(zone).stayed(chunk, pages);
                break;
            }
            self.count_gone(pages.len());
            left -= pages.len();
            let emptied = self.free_pages(zone).shrunk(chunk, pages);
            emptied.into_iter().for_each(|shell| self.give_empty(shell));
        }
        most - left
    }

    /// Takes back a chunk that has no pages any more.
    fn give_empty(&self, mut shell: Shell) {
        // If mremap(2) replaced our mapping with another one, that is emptied, too.
        match shell.slot.discard(0..CHUNK_BYTES) {
            Ok(()) => self.arena.give_empty(shell.kind, shell.slot),
            Err(_) => std::mem::forget(shell), // the memory there now is not ours
        }
    }

    /// Frees all free pages to the kernel; returns how many.
    pub fn give_back(&self) -> usize {
        let give = |zone| {
            self.lists.all(zone, |list| self.thin_out(list, zone, 0, list.pages()));
            self.shrink(zone, usize::MAX)
        };
        (0..self.zones.len()).map(give).sum()
    }

    /// Takes a chunk whose pages are all free and on `node`, and returns it with the number of
    /// pages. Prefers one of section `lane` among those used most recently.
    pub fn take_chunk(&self, node: NodeId, size: PageSize, lane: usize) -> Option<(Shell, usize)> {
        let zone = self.zone_with(node, size)?;
        let taken = self.free_pages(zone).take_idle(|chunk| self.arena.is_of_lane(chunk, lane));
        let (shell, pages) = taken?;
        let first = self.arena.page(self.arena.chunk_of(&shell.slot), 0);
        self.arena.set_all(first, self.arena.chunk_pages(), State::AWAY);
        self.count_gone(pages);
        Some((shell, pages))
    }

    /// Returns whether such a chunk exists.
    pub fn has_chunk(&self, node: NodeId, size: PageSize) -> bool {
        self.zone_with(node, size).is_some_and(|zone| self.free_pages(zone).has_idle())
    }

    /// Adds a chunk whose first `pages` pages are in memory on `node` and have no owner. Returns
    /// the chunk if the node would then keep more than it should.
    pub fn keep_chunk(&self, shell: Shell, pages: usize, node: NodeId) -> Option<Shell> {
        let Some(zone) = self.zone_with(node, shell.kind.size) else { return Some(shell) };
        let chunk = self.arena.chunk_of(&shell.slot);
        let mut free = self.free_pages(zone);
        if free.free_pages() + pages > self.zones[zone].bounds.keep_pages {
            return Some(shell);
        }
        self.arena.set_zone(chunk, zone);
        self.arena.set_all(self.arena.page(chunk, 0), pages, State::UNMARKED);
        free.adopt(chunk, shell, pages, false);
        self.count_held(pages);
        None
    }

    fn zone_with(&self, node: NodeId, size: PageSize) -> Option<usize> {
        self.zones.iter().position(|zone| (zone.node, zone.size) == (node, size))
    }

    /// Reacts to short memory: lists shrink as their tuners decide, and zones free everything.
    /// Returns the number of pages freed.
    pub fn relieve(&self) -> usize {
        let give = |zone| {
            self.lists.each(zone, |_, list| {
                let too_many = list.shrink();
                self.thin_out(list, zone, 0, too_many);
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
            let unneeded = self.free_pages(zone).take_least_free();
            self.lists.each(zone, |cpu, list| {
                let before = list.pages();
                let too_many = match is_online(cpu) {
                    true => list.tick(self.is_foreign(cpu, zone), self.now_ms()),
                    false => before,
                };
                self.thin_out(list, zone, 0, too_many);
                thinned += (before - list.pages()) as usize;
            });
            let keep = self.zones[zone].bounds.keep_pages;
            self.shrink(zone, (unneeded + thinned).saturating_sub(keep));
        }
    }
}
