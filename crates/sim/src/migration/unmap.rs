//! Folios that are taken out of sight, and the pages for their copies.

use std::collections::BTreeMap;

use nodeward_batch::{CopySlice, FolioRefusal, FolioRun, RefusedFolio};
use nodeward_model::SkipReason;
use nodeward_scenario::Bug;

use super::batch_folio::{BatchFolio, MigrationContext, folios_in_slices, refuse, run_indices};
use crate::memory::Folio;
use crate::world::World;

impl World {
    /// Returns the reason why a folio cannot be unmapped now, if there is one.
    fn refusal(&self, context: &MigrationContext, folio: &Folio) -> Option<FolioRefusal> {
        if self.spaces[context.space].ended {
            return Some(FolioRefusal::Final(SkipReason::Gone));
        }
        let byte = self.spaces[context.space].folio_byte(folio);
        let node = byte.node();
        if folio.len() > 1 && !self.spaces[context.space].is_whole_folio(folio) {
            return Some(FolioRefusal::Final(SkipReason::NotPresent)); // it was split meanwhile
        }
        let pinned = || {
            let pinned = &self.spaces[context.space].regions[folio.region].pinned;
            let is_pinned = pinned.range(folio.pages.clone()).next().is_some();
            is_pinned || self.fault_model.is_pinned(self.now_ns, context.space, folio)
        };
        match node {
            None => Some(FolioRefusal::Final(SkipReason::NotPresent)),
            // Another mover has it.
            Some(_) if byte.is_in_flight() => Some(FolioRefusal::Transient(SkipReason::Pinned)),
            Some(node) if node == context.to => Some(FolioRefusal::Final(SkipReason::Refused)),
            Some(_) if pinned() => Some(FolioRefusal::Transient(SkipReason::Pinned)),
            Some(_) => None,
        }
    }

    /// Takes folios out of sight and allocates pages for their copies. Returns the time that takes
    /// (ns).
    pub(crate) fn unmap_folios(
        &mut self,
        context: &MigrationContext,
        batch_folios: &mut [BatchFolio],
        runs: &[FolioRun],
        refused: &mut Vec<RefusedFolio>,
    ) -> u64 {
        let (mut ns, mut leaving) = (0, Vec::new());
        for index in run_indices(runs) {
            let failed = FolioRefusal::Final(SkipReason::NoMemory);
            let refusal = self.refusal(context, &batch_folios[index].folio).or_else(|| {
                let (faults, counters) = (&mut self.fault_model, &mut self.counters);
                faults.allocation_fails(self.now_ns, counters).then_some(failed)
            });
            match refusal {
                Some(why) => {
                    let node =
                        self.spaces[context.space].folio_byte(&batch_folios[index].folio).node();
                    batch_folios[index].already_there = node == Some(context.to);
                    refuse(batch_folios, index, why, refused);
                    ns += self.machine.params.unmap_ns; // cost of the attempt
                }
                None => leaving.push(index),
            }
        }
        let (got, took_ns) = self.allocate_copies(context, batch_folios, &leaving);
        for &index in &leaving[got..] {
            refuse(batch_folios, index, FolioRefusal::Final(SkipReason::NoMemory), refused);
        }
        refused.sort_by_key(|refused| refused.folio);
        ns += took_ns;
        let unmap_number = self.memory.freed_in_flight.begin_unmap();
        let mut by_node = BTreeMap::<usize, u64>::new();
        let tables = self.page_tables(context.space);
        for &index in &leaving[..got] {
            let folio = batch_folios[index].folio.clone();
            let byte = self.spaces[context.space].folio_byte(&folio);
            batch_folios[index].from = byte.node().unwrap_or(context.to);
            batch_folios[index].unmap_number = unmap_number;
            *by_node.entry(batch_folios[index].from).or_default() += 1;
            self.spaces[context.space].set_folio(&folio, byte.in_flight());
            self.memory.copy_targets[context.to] += folio.len();
            let params = &self.machine.params;
            ns += match batch_folios[index].huge {
                true => params.huge_move_ns / 2,
                false => params.unmap_ns + folio.len() * tables * params.unmap_page_ns,
            };
        }
        for (node, folios) in by_node {
            ns += self.lock_lru_of_space(context, node, folios);
        }
        self.record_unmapped(context, batch_folios, &leaving[..got]);
        ns
    }

    /// Undoes the move of those folios of a copy that were pinned since they were unmapped.
    pub(crate) fn refuse_pinned(
        &mut self,
        context: &MigrationContext,
        batch_folios: &mut [BatchFolio],
        slices: &[CopySlice],
        refused: &mut Vec<RefusedFolio>,
    ) {
        for index in folios_in_slices(batch_folios, slices, self.machine.params.page_bytes) {
            if self.fault_model.is_pinned(self.now_ns, context.space, &batch_folios[index].folio) {
                self.counters.turned_back += 1;
                refuse(batch_folios, index, FolioRefusal::Transient(SkipReason::Pinned), refused);
            }
        }
    }

    /// Allocates pages for the copies of these folios. Returns how many folios got theirs, and the
    /// time that took, in nanoseconds.
    fn allocate_copies(
        &mut self,
        context: &MigrationContext,
        batch_folios: &[BatchFolio],
        leaving: &[usize],
    ) -> (usize, u64) {
        let Some(&first) = leaving.first() else { return (0, 0) };
        let wanted = leaving.len() as u64;
        let size = batch_folios[first].folio.len();
        let taken = match size {
            1 => self.mm().allocate_pages(context.cpu, context.to, wanted),
            size => self.mm().allocate_folios(context.cpu, context.to, size, wanted),
        };
        match self.fault_model.has_bug(Bug::OverCapacity, self.now_ns) {
            true => (leaving.len(), taken.ns),
            false => (taken.pages as usize, taken.ns),
        }
    }

    /// Takes the lock of the LRU lists of the space's group on a node, for a number of folios.
    pub(crate) fn lock_lru_of_space(
        &mut self,
        context: &MigrationContext,
        node: usize,
        folios: u64,
    ) -> u64 {
        let group = self.spaces[context.space].memcg;
        self.mm().lock_lru(context.cpu, group, node, folios)
    }
}
