//! What the checks of page contents learn from a migration.

use nodeward_batch::CopySlice;
use nodeward_scenario::Bug;

use super::batch_folio::{BatchFolio, MigrationContext, folios_in_slices};
use crate::cpu::Op;
use crate::faults::UnmapKey;
use crate::hardware::CpuIndexSet;
use crate::ids::SpaceId;
use crate::world::World;

impl World {
    /// Records that folios were taken out of sight. No CPU can still write to lazy pages: they were
    /// unmapped before.
    pub(crate) fn record_unmapped(
        &mut self,
        context: &MigrationContext,
        batch_folios: &[BatchFolio],
        left: &[usize],
    ) {
        if !self.fault_model.contents.is_enabled() || left.is_empty() {
            return;
        }
        let space = &self.spaces[context.space];
        let is_lazy = space.folio_byte(&batch_folios[left[0]].folio).is_lazy();
        let cpus = if is_lazy { CpuIndexSet::default() } else { space.tlb_cpus.clone() };
        let folios = left.iter().map(|&index| &batch_folios[index]);
        let folios: Vec<_> =
            folios.map(|of| (of.unmap_key(context.space), of.folio.len())).collect();
        self.fault_model.contents.record_unmapped(context.to, &cpus, &folios);
    }

    /// Records that the copy of these slices of a batch begins.
    pub(crate) fn record_copies(
        &mut self,
        space: SpaceId,
        batch_folios: &[BatchFolio],
        slices: &[CopySlice],
    ) {
        if !self.fault_model.contents.is_enabled() {
            return;
        }
        let copied = folios_in_slices(batch_folios, slices, self.machine.params.page_bytes);
        let has_bug = self.fault_model.has_bug(Bug::StaleCopy, self.now_ns);
        let left_out = copied.first().copied().filter(|_| has_bug);
        for index in copied.into_iter().filter(|index| Some(*index) != left_out) {
            let folio = batch_folios[index].unmap_key(space);
            self.fault_model.contents.record_copy(folio, self.now_ns);
        }
    }

    /// Records that a folio is visible again: as a copy, or unmoved.
    pub(crate) fn record_mapped(
        &mut self,
        space: SpaceId,
        batch_folio: &BatchFolio,
        as_copy: bool,
    ) {
        let folio = batch_folio.unmap_key(space);
        if as_copy {
            self.finish_writes(folio);
        }
        self.fault_model.contents.record_mapped(folio, as_copy);
    }

    /// Lets CPUs that are in the middle of a turn through a folio complete their writes to it.
    fn finish_writes(&mut self, folio: UnmapKey) {
        let key = folio.0;
        for cpu in self.fault_model.contents.writers(folio).iter() {
            let task = self.cpus[cpu].running.and_then(|task| self.tasks.get(task as usize));
            let Some(Op::Access(lines)) = task.and_then(|task| task.op) else { continue };
            let (part, region) = (lines.range, &self.spaces[key.0].regions[key.1]);
            let pages = region.pages_of_granules(part.first..part.first + part.granules);
            let is_there = (part.space, part.region) == (key.0, key.1) && pages.contains(&key.2);
            if is_there && lines.pattern.writes_milli > 0 && self.cpus[cpu].is_in_turn() {
                let turn_ns = [self.cpus[cpu].turn_began_ns, self.now_ns];
                self.fault_model.contents.record_write(cpu, folio..=folio, turn_ns);
            }
        }
    }
}
