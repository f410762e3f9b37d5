//! The part of a page pool that its handles share: the zones, and per-CPU lists in front of each.

use std::iter;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use nodeward_model::{CpuId, NodeId, Topology};
use nodeward_policy::pcp::{ListLimits, PERIOD_MS, TunerKind};

use rustix::time::{ClockId, clock_gettime};

use super::arena::{Arena, BlockKind, PageNo};
use super::buddy_zone::{BuddyZone, ChunkNo};
use super::cpu_lists::CpuLists;
use super::error::PoolError;
use super::fork_detection;
use super::headroom::Headroom;
use super::options::{ListStats, PoolStats, RunRequest};
use super::page_list::{CpuPageList, FreeRun};
use super::page_states::PageState;
use crate::chunk::PageSize;
use crate::sync::{Mutex, MutexGuard, lock};
use crate::sys::{Slot, current_cpu, prefetch};

/// Free pages are filled with a pattern, so that writes to them are detected.
pub const POISONING: bool = cfg!(debug_assertions);

/// Maximum number of base pages that move between a list and its zone under one lock, so that other
/// threads do not wait long for it: the kernel's figure (63 << 5), chosen there for less than 100
/// us.
pub const BULK_PAGES_MAX: u32 = 2016;

/// The first cache line of a run is prefetched this many allocations ahead. The caller writes there
/// first, and taking a lock while that write waits for memory would wait, too. Measured with one
/// word of each page touched: 33 GB/s without, 66 at 2, 69 at 4, 53 at 16.
const PREFETCH_DISTANCE: usize = 3;

/// A pool without its handles.
pub struct Pool {
    pub arena: Arena,
    pub zones: Vec<NodeZone>,
    pub lists: CpuLists,
    /// The zone of each CPU's own node.
    zone_of_cpu: Vec<usize>,
    pub topology: Topology,
    pub headroom: Arc<Headroom>,
    opened_us: u64,
    period_us: u64,
    fork_depth: u32,
    closed: AtomicBool,
    held_pages: AtomicU64,
    peak_held_pages: AtomicU64,
}

/// The data kept for each chunk.
pub struct PoolChunk {
    pub slot: Slot,
    pub kind: BlockKind,
}

/// The zone of a node, for pages of one size.
pub struct NodeZone {
    pub node: NodeId,
    pub size: PageSize,
    pub bounds: ZoneBounds,
    free: Mutex<BuddyZone<PoolChunk>>,
    /// Held by the thread that changes which pages are in memory.
    pub growth_lock: Mutex<()>,
    visits: AtomicU64,
    /// Base pages that went to callers, and that came from them, bypassing the lists.
    allocated_pages: AtomicU64,
    freed_pages: AtomicU64,
    /// Its number of free pages when runs were last put back.
    free_pages: AtomicUsize,
    /// Zones in the order in which they are tried if this one has no room; this one first.
    nearest: Vec<usize>,
}

/// The bounds of a zone, in base pages.
#[derive(Clone, Copy, Debug)]
pub struct ZoneBounds {
    /// Maximum in memory.
    pub held_pages_max: usize,
    /// Maximum free.
    pub free_pages_max: usize,
    /// Number that stays free while nothing is allocated.
    pub keep_pages: usize,
}

/// The parts that a zone is made of.
pub struct ZoneParts {
    pub node: NodeId,
    pub size: PageSize,
    pub bounds: ZoneBounds,
    /// Limits of the lists in front of it.
    pub limits: ListLimits,
}

/// The parts that a pool is made of.
pub struct PoolParts {
    pub arena: Arena,
    pub zones: Vec<ZoneParts>,
    /// Page size of allocations that do not name a node.
    pub size: PageSize,
    pub topology: Topology,
    pub headroom: Arc<Headroom>,
    pub tuning: TunerKind,
    pub period: Duration,
}

impl Pool {
    /// A pool without memory.
    pub fn new(parts: PoolParts) -> Self {
        let PoolParts { arena, zones, size, topology, headroom: rooms, tuning, period } = parts;
        let near = |from: NodeId, of: PageSize| {
            let by_node = |node| zones.iter().position(|zone| (zone.node, zone.size) == (node, of));
            let nodes = iter::once(from).chain(topology.nearest_nodes(from));
            nodes.filter_map(by_node).collect::<Vec<_>>()
        };
        let cpus = topology.cpus.last().map_or(1, |cpu| cpu.0 as usize + 1);
        let own_zone = |cpu: usize| {
            let node = topology.node_of_cpu(CpuId(cpu as u32))?;
            near(node, size).first().copied()
        };
        let zone_of_cpu = (0..cpus).map(|cpu| own_zone(cpu).unwrap_or(0)).collect();
        let chunk_pages = arena.chunk_pages();
        let zone = |&ZoneParts { node, size, bounds, .. }: &_| NodeZone {
            node,
            size,
            bounds,
            free: Mutex::new(BuddyZone::new(chunk_pages)),
            growth_lock: Mutex::new(()),
            visits: AtomicU64::new(0),
            allocated_pages: AtomicU64::new(0),
            freed_pages: AtomicU64::new(0),
            free_pages: AtomicUsize::new(0),
            nearest: near(node, size),
        };
        Self {
            lists: CpuLists::new(cpus, zones.iter().map(|zone| zone.limits).collect(), tuning),
            zones: zones.iter().map(zone).collect(),
            arena,
            zone_of_cpu,
            topology,
            headroom: rooms,
            opened_us: coarse_us(),
            period_us: (period.as_micros() as u64).max(1),
            fork_depth: fork_detection::fork_depth(),
            closed: AtomicBool::new(false),
            held_pages: AtomicU64::new(0),
            peak_held_pages: AtomicU64::new(0),
        }
    }

    /// Allocates a run.
    pub fn allocate(&self, wanted: &RunRequest) -> Result<NonNull<u8>, PoolError> {
        let page = self.allocate_pages(wanted)?;
        self.arena.set(page, PageState::used(wanted.order));
        Ok(self.arena.address(page))
    }

    /// Allocates a run for a guard.
    pub fn allocate_guarded(&self, wanted: &RunRequest) -> Result<PageNo, PoolError> {
        self.allocate_pages(wanted).inspect(|&page| self.arena.set(page, PageState::GUARDED))
    }

    /// Frees a run.
    pub fn free(&self, start: NonNull<u8>, order: u32) -> Result<(), PoolError> {
        self.check_process()?;
        self.check_order(order)?;
        let page = self.arena.page_at(start)?;
        self.arena.begin_free(page, order)?;
        self.free_run(FreeRun { page, order });
        Ok(())
    }

    /// Frees the run of a guard.
    pub fn free_guarded(&self, run: FreeRun) {
        if self.check_process().is_ok() {
            self.arena.set(run.page, PageState::LISTED);
            self.free_run(run);
        }
    }

    /// Refuses to work in a child.
    ///
    /// # Errors
    /// [`PoolError::Forked`] in a child made by fork(2).
    pub fn check_process(&self) -> Result<(), PoolError> {
        if fork_detection::fork_depth() == self.fork_depth {
            Ok(())
        } else {
            Err(PoolError::Forked)
        }
    }

    fn check_order(&self, order: u32) -> Result<(), PoolError> {
        let order_max = self.arena.chunk_pages().ilog2();
        if order <= order_max { Ok(()) } else { Err(PoolError::Order { order, order_max }) }
    }

    /// Ends allocation for good.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Returns the counters of the pool.
    pub fn stats(&self) -> PoolStats {
        let mut stats = PoolStats {
            peak_held_pages: self.peak_held_pages.load(Ordering::Relaxed),
            ..PoolStats::default()
        };
        for (zone, of_node) in self.zones.iter().enumerate() {
            stats.zone_visits += of_node.visits.load(Ordering::Relaxed);
            stats.allocated_pages += of_node.allocated_pages.load(Ordering::Relaxed);
            stats.freed_pages += of_node.freed_pages.load(Ordering::Relaxed);
            self.lists.inspect_each(zone, |cpu, list| {
                let (pages, high) = (list.pages(), list.high());
                stats.lists.push(ListStats { cpu, node: of_node.node, pages, high });
                stats.listed_pages += u64::from(pages);
                stats.allocated_pages += list.allocated_pages;
                stats.freed_pages += list.freed_pages;
            });
            let free = self.lock_free_pages(zone);
            stats.held_pages += free.held_pages() as u64;
            stats.zone_free_pages += free.free_pages() as u64;
        }
        let free = stats.listed_pages + stats.zone_free_pages;
        stats.in_use_pages = stats.held_pages.saturating_sub(free);
        stats
    }

    /// Counts pages that came into memory.
    pub fn count_held(&self, pages: usize) {
        let held = self.held_pages.fetch_add(pages as u64, Ordering::Relaxed) + pages as u64;
        self.peak_held_pages.fetch_max(held, Ordering::Relaxed);
    }

    /// Counts pages that left memory.
    pub fn count_gone(&self, pages: usize) {
        self.held_pages.fetch_sub(pages as u64, Ordering::Relaxed);
    }

    fn zone_of_node(&self, own: usize, node: NodeId) -> Result<usize, PoolError> {
        let mut zones = self.zones[own].nearest.iter();
        let found = zones.find(|&&zone| self.zones[zone].node == node);
        found.copied().ok_or(PoolError::UnknownNode { node })
    }

    /// Returns the time since the pool was opened, in thousandths of a period.
    pub fn now_ms(&self) -> u64 {
        let elapsed_us = coarse_us().saturating_sub(self.opened_us);
        elapsed_us.saturating_mul(PERIOD_MS) / self.period_us
    }

    fn allocate_pages(&self, wanted: &RunRequest) -> Result<PageNo, PoolError> {
        self.check_process()?;
        if self.closed.load(Ordering::Relaxed) {
            return Err(PoolError::Closed);
        }
        self.check_order(wanted.order)?;
        let cpu = current_cpu() as usize;
        let own = self.zone_of_cpu[cpu % self.zone_of_cpu.len()];
        let page = match wanted.node {
            Some(node) => self.take(cpu, self.zone_of_node(own, node)?, wanted.order),
            None => self.take_from_nearest(cpu, own, wanted.order),
        };
        let page = page.ok_or(PoolError::NoMemory { order: wanted.order })?;
        self.fill_run(page, wanted).map(|()| page)
    }

    fn take_from_nearest(&self, cpu: usize, own: usize, order: u32) -> Option<PageNo> {
        let others = || self.zones[own].nearest.iter().filter(|&&zone| zone != own);
        let from_others = || others().find_map(|&zone| self.take(cpu, zone, order));
        self.take(cpu, own, order).or_else(from_others)
    }

    /// Takes a run of a zone through a list of the CPU, or else from the zone itself.
    fn take(&self, cpu: usize, zone: usize, order: u32) -> Option<PageNo> {
        let by_list = self.lists.with_free_list(cpu, zone, |list| {
            let run = list.pop(order).or_else(|| {
                let wanted = list.refill(order);
                self.refill_from_zone(zone, order, wanted, |page| {
                    list.push_from_zone(FreeRun { page, order });
                });
                list.pop(order)
            });
            let run = run.or_else(|| self.take_from_other_orders(list, zone, order));
            if let Some(soon) = list.peek(order, PREFETCH_DISTANCE) {
                prefetch(self.arena.address(soon));
            }
            run
        });
        by_list.unwrap_or_else(|| {
            let mut taken = None;
            self.refill_from_zone(zone, order, 1, |run| taken = Some(run));
            let passed = &self.zones[zone].allocated_pages;
            taken.inspect(|_| _ = passed.fetch_add(1 << order, Ordering::Relaxed))
        })
    }

    /// Adds a run without owner to a list of the CPU, or else to its zone.
    fn free_run(&self, run: FreeRun) {
        let FreeRun { page, order } = run;
        if POISONING {
            self.poison(page, 1 << order);
        }
        let (zone, now_ms) = (self.arena.zone_of(page), self.now_ms());
        let thinned = self.lists.with_free_list(current_cpu() as usize, zone, |list| {
            let too_many = list.push(run, now_ms);
            self.drain_list(list, zone, order, too_many);
            too_many > 0
        });
        let thinned = thinned.unwrap_or_else(|| {
            self.return_to_zone(zone, &[run]);
            self.zones[zone].freed_pages.fetch_add(1 << order, Ordering::Relaxed);
            true
        });
        if thinned {
            self.trim(zone);
        }
    }

    /// Takes a run from a zone after all runs of other orders went from the CPU's list to the zone.
    fn take_from_other_orders(
        &self,
        list: &mut CpuPageList,
        zone: usize,
        order: u32,
    ) -> Option<PageNo> {
        let pages = list.pages();
        if pages > 0 {
            self.drain_list(list, zone, order, pages);
            self.refill_from_zone(zone, order, 1, |page| {
                list.push_from_zone(FreeRun { page, order });
            });
        }
        list.pop(order)
    }

    /// Takes at most `most` runs out of a zone, bringing in memory if it has none.
    fn refill_from_zone(&self, zone: usize, order: u32, most: usize, mut took: impl FnMut(PageNo)) {
        let most = most.min((BULK_PAGES_MAX >> order).max(1) as usize);
        let mut runs = Vec::with_capacity(most);
        self.visit(zone).take(order, most, |chunk, page| runs.push((chunk, page)));
        if runs.is_empty() {
            self.find_runs(zone, order, most, &mut runs);
        }
        // In reverse, so that low addresses are handed out first and neighbours follow each other.
        for &(chunk, page) in runs.iter().rev() {
            let run = self.arena.page(chunk, page);
            if POISONING {
                self.poison_unpoisoned(chunk, page..page + (1 << order));
            }
            self.arena.set_all(run, 1 << order, PageState::TAIL);
            self.arena.set(run, PageState::LISTED);
            took(run);
        }
    }

    /// Zeroes a run if requested. Debug builds first check that it was not written while free.
    fn fill_run(&self, page: PageNo, wanted: &RunRequest) -> Result<(), PoolError> {
        if !POISONING && !wanted.zeroed {
            return Ok(());
        }
        let (mapping, bytes) = self.arena.bytes_of_pages(page, 1 << wanted.order);
        if POISONING && let Some(byte) = mapping.written_since_poisoned(bytes.clone()) {
            return Err(PoolError::WrittenAfterFree { address: mapping.start() + byte as u64 });
        }
        if wanted.zeroed {
            mapping.zero(bytes);
        }
        Ok(())
    }

    /// Fills those of a chunk's free pages with the pattern that came from a migration.
    fn poison_unpoisoned(&self, chunk: ChunkNo, pages: Range<usize>) {
        let pages = pages.map(|page| self.arena.page(chunk, page));
        let unmarked = pages.filter(|&page| self.arena.has_state(page, PageState::UNPOISONED));
        unmarked.for_each(|page| self.poison(page, 1));
    }

    /// Fills free pages with the pattern.
    pub fn poison(&self, page: PageNo, pages: usize) {
        let (mapping, bytes) = self.arena.bytes_of_pages(page, pages);
        mapping.poison(bytes);
    }

    /// Gives `pages` base pages of a list back to their zone, at most all.
    pub fn drain_list(&self, list: &mut CpuPageList, zone: usize, order: u32, pages: u32) {
        let mut left = pages.min(list.pages());
        let mut runs = Vec::new();
        while left > 0 {
            let before = list.pages();
            runs.clear();
            list.take_cold(order, left.min(BULK_PAGES_MAX), &mut runs);
            self.return_to_zone(zone, &runs);
            left = left.saturating_sub(before - list.pages());
        }
    }

    /// Gives runs back to their zone.
    fn return_to_zone(&self, zone: usize, runs: &[FreeRun]) {
        let place = |&FreeRun { page, order }: &FreeRun| {
            self.arena.set_all(page, 1 << order, PageState::FREE);
            let (chunk, first) = self.arena.chunk_of_page(page);
            (chunk, first..first + (1 << order))
        };
        let places: Vec<_> = runs.iter().map(place).collect();
        let mut free = self.visit(zone);
        places.into_iter().for_each(|(chunk, pages)| free.put(chunk, pages));
        self.zones[zone].free_pages.store(free.free_pages(), Ordering::Relaxed);
    }

    /// Gives pages to the kernel that a zone has free above its bound.
    fn trim(&self, zone: usize) {
        let of_node = &self.zones[zone];
        let free = of_node.free_pages.load(Ordering::Relaxed);
        let too_many = free.saturating_sub(of_node.bounds.free_pages_max);
        if too_many > 0 {
            self.shrink(zone, too_many);
        }
    }

    /// Locks the free pages of a zone to move some to or from a list, and counts the visit.
    pub fn visit(&self, zone: usize) -> MutexGuard<'_, BuddyZone<PoolChunk>> {
        let free = lock(&self.zones[zone].free);
        self.zones[zone].visits.fetch_add(1, Ordering::Relaxed);
        free
    }

    /// Locks the free pages of a zone for housekeeping.
    pub fn lock_free_pages(&self, zone: usize) -> MutexGuard<'_, BuddyZone<PoolChunk>> {
        lock(&self.zones[zone].free)
    }
}

/// Returns a monotonic time in microseconds, with the resolution of a kernel tick (1 to 10 ms).
/// Reading it costs a quarter of an exact clock, and every free does.
fn coarse_us() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

impl Drop for Pool {
    /// Chunks with pages that callers still have stay mapped for as long as the process lives.
    fn drop(&mut self) {
        for zone in self.zones.drain(..) {
            let free = zone.free.into_inner().expect("no thread panicked with this lock");
            let in_use = free.into_chunks().filter(|(_, in_use)| *in_use);
            in_use.for_each(|(shell, _)| std::mem::forget(shell.slot));
        }
    }
}
