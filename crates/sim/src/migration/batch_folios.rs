//! The effect of each step on folios, and its cost.

use std::collections::{BTreeMap, BTreeSet};

use nodeward_batch::{CopySlice, FolioRefusal, FolioRun, RefusedFolio};
use nodeward_model::SkipReason;
use nodeward_scenario::Bug;

use super::mover_state::Folio;
use crate::memory::{PageByte, SpaceId};
use crate::world::World;

/// A folio of a batch.
#[derive(Clone, Debug)]
pub struct BatchFolio {
    /// Its index in the job.
    pub job_index: usize,
    /// The folio itself.
    pub folio: Folio,
    /// Whether it is a huge page.
    pub huge: bool,
    /// Its source node, once it is out of sight.
    pub from: usize,
    /// The flight during which it is out of sight.
    pub unmap_number: u64,
    /// The reason why it stayed, if it did.
    pub skip_reason: SkipReason,
    /// Whether another mover brought it to its destination.
    pub already_there: bool,
}

/// The context of a batch: working CPU, process and destination.
#[derive(Clone, Copy, Debug)]
pub struct MigrationContext {
    /// The CPU that does the work.
    pub cpu: usize,
    /// The process of the folios.
    pub space: SpaceId,
    /// The index of their destination node.
    pub to: usize,
}

/// Returns the seats of some runs.
fn run_indices(runs: &[FolioRun]) -> impl Iterator<Item = usize> + '_ {
    runs.iter().flat_map(|run| run.first as usize..(run.first + run.folios) as usize)
}

/// Returns the indices of the folios that a copy covers, in ascending order.
pub fn folios_in_slices(
    batch_folios: &[BatchFolio],
    slices: &[CopySlice],
    page_bytes: u64,
) -> BTreeSet<usize> {
    let bytes = batch_folios.first().map_or(1, |first| first.folio.len() * page_bytes).max(1);
    let some = slices.iter().filter(|slice| slice.bytes > 0);
    let ends = |slice: &CopySlice| slice.offset / bytes..=(slice.offset + slice.bytes - 1) / bytes;
    some.flat_map(ends).map(|index| index as usize).collect()
}

fn refuse(
    batch_folios: &mut [BatchFolio],
    index: usize,
    why: FolioRefusal,
    refused: &mut Vec<RefusedFolio>,
) {
    let (FolioRefusal::Transient(reason) | FolioRefusal::Final(reason)) = why;
    batch_folios[index].skip_reason = reason;
    refused.push(RefusedFolio { folio: index as u32, refusal: why });
}

impl World {
    /// Returns the state of a folio's first page.
    pub(crate) fn folio_byte(&self, space: SpaceId, folio: &Folio) -> PageByte {
        let region = self.spaces[space].regions.get(folio.region);
        let region = region.filter(|region| folio.pages.end <= region.pages);
        region.map_or(PageByte::ABSENT, |region| region.page(folio.pages.start))
    }

    /// Returns whether a folio still is one huge page.
    pub(crate) fn is_huge_folio(&self, space: SpaceId, folio: &Folio) -> bool {
        let region = self.spaces[space].regions.get(folio.region);
        let region = region.filter(|region| folio.pages.end <= region.pages);
        region.is_some_and(|region| region.is_huge(folio.pages.start))
    }

    /// Returns whether a folio is still whole.
    pub(crate) fn is_whole_folio(&self, space: SpaceId, folio: &Folio) -> bool {
        let region = self.spaces[space].regions.get(folio.region);
        let region = region.filter(|region| folio.pages.end <= region.pages);
        region.is_some_and(|region| region.folio(folio.pages.start) == folio.pages)
    }

    /// Returns the pages of a folio that are still out of sight; its process may have freed some. A
    /// page that the process mapped there since may be in flight with another mover, and is not
    /// included.
    fn pages_in_flight(&self, space: SpaceId, batch_folio: &BatchFolio) -> Vec<u64> {
        let region = batch_folio.folio.region;
        let page_at = |page: u64| Folio { region, pages: page..page + 1 };
        let freed_at = |page: u64| self.movers.freed_in_flight.get(&(space, region, page));
        let is_ours =
            |page: u64| freed_at(page).is_none_or(|&flight| flight < batch_folio.unmap_number);
        let is_out = |page: u64| self.folio_byte(space, &page_at(page)).is_in_flight();
        batch_folio.folio.pages.clone().filter(|&page| is_out(page) && is_ours(page)).collect()
    }

    pub(crate) fn set_folio(&mut self, space: SpaceId, folio: &Folio, byte: PageByte) {
        self.spaces[space].regions[folio.region].set(folio.pages.clone(), byte);
    }

    /// Returns the reason why a folio cannot be unmapped now, if there is one.
    fn refusal(&self, way: &MigrationContext, folio: &Folio) -> Option<FolioRefusal> {
        if self.spaces[way.space].ended {
            return Some(FolioRefusal::Final(SkipReason::Gone));
        }
        let byte = self.folio_byte(way.space, folio);
        let node = byte.node();
        if folio.len() > 1 && !self.is_whole_folio(way.space, folio) {
            return Some(FolioRefusal::Final(SkipReason::NotPresent)); // it was split meanwhile
        }
        let pinned = || {
            let pinned = &self.spaces[way.space].regions[folio.region].pinned;
            let is_pinned = pinned.range(folio.pages.clone()).next().is_some();
            is_pinned || self.is_pinned(way.space, folio)
        };
        match node {
            None => Some(FolioRefusal::Final(SkipReason::NotPresent)),
            // Another mover has it.
            Some(_) if byte.is_in_flight() => Some(FolioRefusal::Transient(SkipReason::Pinned)),
            Some(node) if node == way.to => Some(FolioRefusal::Final(SkipReason::Refused)),
            Some(_) if pinned() => Some(FolioRefusal::Transient(SkipReason::Pinned)),
            Some(_) => None,
        }
    }

    /// Takes folios out of sight and allocates pages for their copies. Returns the time that takes
    /// (ns).
    pub(crate) fn unmap_folios(
        &mut self,
        way: &MigrationContext,
        batch_folios: &mut [BatchFolio],
        runs: &[FolioRun],
        refused: &mut Vec<RefusedFolio>,
    ) -> u64 {
        let (mut ns, mut leaving) = (0, Vec::new());
        for index in run_indices(runs) {
            let failed = FolioRefusal::Final(SkipReason::NoMemory);
            let refusal = self.refusal(way, &batch_folios[index].folio);
            match refusal.or_else(|| self.allocation_fails().then_some(failed)) {
                Some(why) => {
                    let node = self.folio_byte(way.space, &batch_folios[index].folio).node();
                    batch_folios[index].already_there = node == Some(way.to);
                    refuse(batch_folios, index, why, refused);
                    ns += self.machine.params.unmap_ns; // cost of the attempt
                }
                None => leaving.push(index),
            }
        }
        let (got, took_ns) = self.allocate_copies(way, batch_folios, &leaving);
        for &index in &leaving[got..] {
            refuse(batch_folios, index, FolioRefusal::Final(SkipReason::NoMemory), refused);
        }
        refused.sort_by_key(|refused| refused.folio);
        ns += took_ns;
        self.movers.unmap_count += 1;
        let mut by_node = BTreeMap::<usize, u64>::new();
        for &index in &leaving[..got] {
            let folio = batch_folios[index].folio.clone();
            let byte = self.folio_byte(way.space, &folio);
            batch_folios[index].from = byte.node().unwrap_or(way.to);
            batch_folios[index].unmap_number = self.movers.unmap_count;
            *by_node.entry(batch_folios[index].from).or_default() += 1;
            self.set_folio(way.space, &folio, byte.in_flight());
            self.memory.copy_targets[way.to] += folio.len();
            let params = &self.machine.params;
            ns += match batch_folios[index].huge {
                true => params.huge_move_ns / 2,
                false => params.unmap_ns + folio.len() * params.unmap_page_ns,
            };
        }
        for (node, folios) in by_node {
            ns += self.lock_lru_of_space(way, node, folios);
        }
        self.record_unmapped(way, batch_folios, &leaving[..got]);
        ns
    }

    /// Undoes the move of those folios of a copy that were pinned since they were unmapped.
    pub(crate) fn refuse_pinned(
        &mut self,
        way: &MigrationContext,
        batch_folios: &mut [BatchFolio],
        slices: &[CopySlice],
        refused: &mut Vec<RefusedFolio>,
    ) {
        for index in folios_in_slices(batch_folios, slices, self.machine.params.page_bytes) {
            if self.is_pinned(way.space, &batch_folios[index].folio) {
                self.counters.turned_back += 1;
                refuse(batch_folios, index, FolioRefusal::Transient(SkipReason::Pinned), refused);
            }
        }
    }

    /// Allocates pages for the copies of these folios. Returns how many folios got theirs, and the
    /// time that took, in nanoseconds.
    fn allocate_copies(
        &mut self,
        way: &MigrationContext,
        batch_folios: &[BatchFolio],
        leaving: &[usize],
    ) -> (usize, u64) {
        let Some(&first) = leaving.first() else { return (0, 0) };
        let wanted = leaving.len() as u64;
        let size = batch_folios[first].folio.len();
        let taken = match size {
            1 => self.allocate_pages(way.cpu, way.to, wanted),
            size => self.allocate_folios(way.cpu, way.to, size, wanted),
        };
        match self.has_bug(Bug::OverCapacity) {
            true => (leaving.len(), taken.ns),
            false => (taken.pages as usize, taken.ns),
        }
    }

    /// Takes the lock of the LRU lists of the space's group on a node, for a number of folios.
    fn lock_lru_of_space(&mut self, way: &MigrationContext, node: usize, folios: u64) -> u64 {
        self.lock_lru(way.cpu, self.spaces[way.space].memcg, node, folios)
    }

    /// Returns the time to bring folios back into sight, in nanoseconds.
    pub(crate) fn map_ns(
        &mut self,
        way: &MigrationContext,
        batch_folios: &[BatchFolio],
        runs: &[FolioRun],
        to: bool,
    ) -> u64 {
        let params = &self.machine.params;
        let (mut ns, mut by_node) = (0, BTreeMap::<usize, u64>::new());
        for batch_folio in run_indices(runs).map(|index| &batch_folios[index]) {
            let node = if to { way.to } else { batch_folio.from };
            *by_node.entry(node).or_default() += 1;
            ns += match batch_folio.huge {
                true => params.huge_move_ns - params.huge_move_ns / 2,
                false => params.map_ns + batch_folio.folio.len() * params.map_page_ns,
            };
        }
        let locks =
            by_node.into_iter().map(|(node, folios)| self.lock_lru_of_space(way, node, folios));
        ns + locks.sum::<u64>()
    }

    /// Makes the copies visible and frees the originals, unless these were freed meanwhile. Returns
    /// the time that freeing takes, in nanoseconds.
    pub(crate) fn map_copies(
        &mut self,
        way: &MigrationContext,
        batch_folios: &mut [BatchFolio],
        runs: &[FolioRun],
        refused: &mut Vec<RefusedFolio>,
    ) -> u64 {
        let (mut free, mut lost) = (FreedFolios::default(), self.has_bug(Bug::LosePage));
        for index in run_indices(runs) {
            let folio = batch_folios[index].folio.clone();
            let byte = self.folio_byte(way.space, &folio);
            let whole =
                self.pages_in_flight(way.space, &batch_folios[index]).len() as u64 == folio.len();
            let Some(from) = byte.node().filter(|_| whole) else {
                refuse(batch_folios, index, self.loss_refusal(way.space), refused);
                continue;
            };
            self.record_mapped(way.space, &batch_folios[index], true);
            self.set_folio(way.space, &folio, PageByte::on(way.to));
            self.memory.copy_targets[way.to] -= folio.len();
            if !std::mem::take(&mut lost) {
                free.add(from, &batch_folios[index]);
            }
            self.counters.migrated_pages += folio.len();
            *self.counters.migrated.entry((from, way.to)).or_default() += folio.len();
        }
        self.wake_migration_waiters(way.space);
        self.return_freed(way.cpu, free)
    }

    /// Makes the originals visible again and frees the pages for their copies. Returns the time
    /// that freeing takes, in nanoseconds.
    pub(crate) fn remap_originals(
        &mut self,
        way: &MigrationContext,
        batch_folios: &mut [BatchFolio],
        runs: &[FolioRun],
        refused: &mut Vec<RefusedFolio>,
    ) -> u64 {
        let mut free = FreedFolios::default();
        for index in run_indices(runs) {
            let folio = batch_folios[index].folio.clone();
            self.record_mapped(way.space, &batch_folios[index], false);
            self.memory.copy_targets[way.to] -= folio.len();
            free.add(way.to, &batch_folios[index]);
            let out = self.pages_in_flight(way.space, &batch_folios[index]);
            if out.len() as u64 == folio.len() {
                let byte = self.folio_byte(way.space, &folio);
                self.set_folio(way.space, &folio, byte.not_in_flight());
                continue;
            }
            for page in out {
                let page = Folio { region: folio.region, pages: page..page + 1 };
                let byte = self.folio_byte(way.space, &page);
                self.set_folio(way.space, &page, byte.not_in_flight());
            }
            refuse(batch_folios, index, self.loss_refusal(way.space), refused);
        }
        self.wake_migration_waiters(way.space);
        self.return_freed(way.cpu, free)
    }

    /// Returns the reason why a folio that was out of sight has no place any more.
    fn loss_refusal(&self, space: SpaceId) -> FolioRefusal {
        let gone = self.spaces[space].ended;
        FolioRefusal::Final(if gone { SkipReason::Gone } else { SkipReason::NotPresent })
    }

    fn wake_migration_waiters(&mut self, space: SpaceId) {
        for task in std::mem::take(&mut self.spaces[space].migration_waiters) {
            self.wake(task);
        }
    }

    fn return_freed(&mut self, cpu: usize, free: FreedFolios) -> u64 {
        let mut ns = 0;
        for ((node, size), folios) in free.folios {
            ns += match size {
                1 => self.return_pages(cpu, node, folios),
                size => self.return_folios(cpu, node, size, folios),
            };
        }
        ns
    }
}

/// Free folios, by node and size.
#[derive(Debug, Default)]
struct FreedFolios {
    folios: BTreeMap<(usize, u64), u64>,
}

impl FreedFolios {
    fn add(&mut self, node: usize, batch_folio: &BatchFolio) {
        *self.folios.entry((node, batch_folio.folio.len())).or_default() += 1;
    }
}
