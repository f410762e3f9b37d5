//! Folios that come back into sight: as copies, or where they were.

use std::collections::BTreeMap;

use nodeward_batch::{FolioRefusal, FolioRun, RefusedFolio};
use nodeward_model::SkipReason;
use nodeward_scenario::Bug;

use super::batch_folio::{BatchFolio, MigrationContext, refuse, run_indices};
use crate::ids::SpaceId;
use crate::memory::{Folio, PageByte};
use crate::world::World;

impl World {
    /// Returns the time to bring folios back into sight, in nanoseconds.
    pub(crate) fn map_ns(
        &mut self,
        context: &MigrationContext,
        batch_folios: &[BatchFolio],
        runs: &[FolioRun],
        to: bool,
    ) -> u64 {
        let params = &self.machine.params;
        let tables = self.page_tables(context.space);
        let (mut ns, mut by_node) = (0, BTreeMap::<usize, u64>::new());
        for batch_folio in run_indices(runs).map(|index| &batch_folios[index]) {
            let node = if to { context.to } else { batch_folio.from };
            *by_node.entry(node).or_default() += 1;
            ns += match batch_folio.huge {
                true => params.huge_move_ns - params.huge_move_ns / 2,
                false => params.map_ns + batch_folio.folio.len() * tables * params.map_page_ns,
            };
        }
        let locks =
            by_node.into_iter().map(|(node, folios)| self.lock_lru_of_space(context, node, folios));
        ns + locks.sum::<u64>()
    }

    /// Returns the pages of a folio that are still out of sight; its process may have freed some. A
    /// page that the process mapped there since may be in flight with another mover, and is not
    /// included.
    fn pages_in_flight(&self, space: SpaceId, batch_folio: &BatchFolio) -> Vec<u64> {
        let region = batch_folio.folio.region;
        let page_at = |page: u64| Folio { region, pages: page..page + 1 };
        let freed_at = |page: u64| self.memory.freed_in_flight.freed_at((space, region, page));
        let is_ours =
            |page: u64| freed_at(page).is_none_or(|flight| flight < batch_folio.unmap_number);
        let is_out = |page: u64| self.spaces[space].folio_byte(&page_at(page)).is_in_flight();
        batch_folio.folio.pages.clone().filter(|&page| is_out(page) && is_ours(page)).collect()
    }

    /// Makes the copies visible and frees the originals, unless these were freed meanwhile. Returns
    /// the time that freeing takes, in nanoseconds.
    pub(crate) fn map_copies(
        &mut self,
        context: &MigrationContext,
        batch_folios: &mut [BatchFolio],
        runs: &[FolioRun],
        refused: &mut Vec<RefusedFolio>,
    ) -> u64 {
        let (mut free, mut lost) =
            (FreedFolios::default(), self.fault_model.has_bug(Bug::LosePage, self.now_ns));
        for index in run_indices(runs) {
            let folio = batch_folios[index].folio.clone();
            let byte = self.spaces[context.space].folio_byte(&folio);
            let whole = self.pages_in_flight(context.space, &batch_folios[index]).len() as u64
                == folio.len();
            let Some(from) = byte.node().filter(|_| whole) else {
                refuse(batch_folios, index, self.loss_refusal(context.space), refused);
                continue;
            };
            self.record_mapped(context.space, &batch_folios[index], true);
            self.spaces[context.space].set_folio(&folio, PageByte::on(context.to));
            self.memory.copy_targets[context.to] -= folio.len();
            if !std::mem::take(&mut lost) {
                free.add(from, &batch_folios[index]);
            }
            self.counters.migrated_pages += folio.len();
            *self.counters.migrated.entry((from, context.to)).or_default() += folio.len();
        }
        self.wake_migration_waiters(context.space);
        self.return_freed(context.cpu, free)
    }

    /// Makes the originals visible again and frees the pages for their copies. Returns the time
    /// that freeing takes, in nanoseconds.
    pub(crate) fn remap_originals(
        &mut self,
        context: &MigrationContext,
        batch_folios: &mut [BatchFolio],
        runs: &[FolioRun],
        refused: &mut Vec<RefusedFolio>,
    ) -> u64 {
        let mut free = FreedFolios::default();
        for index in run_indices(runs) {
            let folio = batch_folios[index].folio.clone();
            self.record_mapped(context.space, &batch_folios[index], false);
            self.memory.copy_targets[context.to] -= folio.len();
            free.add(context.to, &batch_folios[index]);
            let out = self.pages_in_flight(context.space, &batch_folios[index]);
            if out.len() as u64 == folio.len() {
                let byte = self.spaces[context.space].folio_byte(&folio);
                self.spaces[context.space].set_folio(&folio, byte.not_in_flight());
                continue;
            }
            for page in out {
                let page = Folio { region: folio.region, pages: page..page + 1 };
                let byte = self.spaces[context.space].folio_byte(&page);
                self.spaces[context.space].set_folio(&page, byte.not_in_flight());
            }
            refuse(batch_folios, index, self.loss_refusal(context.space), refused);
        }
        self.wake_migration_waiters(context.space);
        self.return_freed(context.cpu, free)
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
                1 => self.mm().return_pages(cpu, node, folios),
                size => self.mm().return_folios(cpu, node, size, folios),
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
