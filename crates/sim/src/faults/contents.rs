//! Checks that moved pages hold what was written to them.
//!
//! A visible page holds what was written to it last; no record is needed for that. A page that is
//! taken out of sight gets a stamp, and a list of the CPUs that can still write to it through
//! translations that they have not flushed yet. Such a write changes the stamp. The copy carries
//! the stamp that the page had when the copy began. Both are compared when the copy becomes
//! visible.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use nodeward_batch::CopySlice;
use nodeward_scenario::Bug;

use crate::cpu::{CpuIndexSet, GranuleRange, Op};
use crate::memory::SpaceId;
use crate::migration::{BatchFolio, MigrationContext, folios_in_slices};
use crate::world::World;

/// A folio, by its space, its region and its first page.
pub type FolioKey = (SpaceId, usize, u64);
/// One flight of a folio. The number is needed because the process may free the folio meanwhile and
/// map another one there.
pub type UnmapKey = (FolioKey, u64);

/// A folio out of sight.
#[derive(Clone, Debug)]
pub struct UnmappedFolio {
    pub pages: u64,
    /// Index of the node where its copy will be.
    pub to: usize,
    /// Stamp of what was written to it last.
    pub written: u64,
    /// When its copy began, and the stamp that was copied.
    pub copied: Option<(u64, u64)>,
    /// Key in [`ContentTracker::translations`].
    pub translations: u64,
}

/// The CPUs that can still reach a batch of folios through old translations.
#[derive(Clone, Debug)]
pub struct StaleTranslations {
    pub space: SpaceId,
    /// Time at which each CPU loses its translation, in virtual nanoseconds.
    pub until_ns: BTreeMap<usize, u64>,
    /// Number of folios that are still out of sight.
    pub folios: usize,
}

/// A folio whose contents differ from what was written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaleContents {
    /// Stamp of what was written to it last.
    pub written: u64,
    /// Stamp of what it holds.
    pub holds: u64,
}

/// Records of page contents; empty unless checking is on.
#[derive(Debug)]
pub struct ContentTracker {
    pub is_enabled: bool,
    /// The last stamp that was assigned.
    pub last_stamp: u64,
    pub unmapped: BTreeMap<UnmapKey, UnmappedFolio>,
    pub translations: BTreeMap<u64, StaleTranslations>,
    /// Stale folios, by first page.
    pub stale: BTreeMap<FolioKey, StaleContents>,
    /// Base pages that became visible as copies.
    pub mapped_copies: u64,
}

impl ContentTracker {
    /// Creates a state with nothing out of sight.
    pub fn new(on: bool) -> Self {
        let (away, sights, stale) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self {
            is_enabled: on,
            last_stamp: 0,
            unmapped: away,
            translations: sights,
            stale,
            mapped_copies: 0,
        }
    }

    /// Returns whether contents are checked.
    pub fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// Returns the pages by node that wait for the contents of folios out of sight.
    pub fn pages_for_copies(&self, nodes: usize) -> Vec<u64> {
        let mut pages = vec![0; nodes];
        self.unmapped.values().for_each(|away| pages[away.to] += away.pages);
        pages
    }

    pub fn next_stamp(&mut self) -> u64 {
        self.last_stamp += 1;
        self.last_stamp
    }

    /// Records that a CPU wrote to all reachable folios of a range during a turn.
    pub fn record_write(
        &mut self,
        cpu: usize,
        folios: RangeInclusive<UnmapKey>,
        turn_ns: [u64; 2],
    ) {
        let [began_ns, ended_ns] = turn_ns;
        let Self { last_stamp: stamp, unmapped: away, translations: sights, .. } = self;
        for (_, away) in away.range_mut(folios) {
            let until_ns =
                sights.get(&away.translations).and_then(|sight| sight.until_ns.get(&cpu));
            let Some(&until_ns) = until_ns.filter(|&&until_ns| until_ns > began_ns) else {
                continue;
            };
            let last_ns = until_ns.min(ended_ns);
            if away.copied.is_none_or(|(at_ns, _)| last_ns > at_ns) {
                *stamp += 1;
                away.written = *stamp;
            }
        }
    }
}

impl World {
    /// Records that folios were taken out of sight. No CPU can still write to lazy pages: they were
    /// unmapped before.
    pub(crate) fn record_unmapped(
        &mut self,
        way: &MigrationContext,
        batch_folios: &[BatchFolio],
        left: &[usize],
    ) {
        if !self.fault_model.contents.is_enabled || left.is_empty() {
            return;
        }
        let stamp = self.fault_model.contents.next_stamp();
        let first = self.folio_byte(way.space, &batch_folios[left[0]].folio);
        let cpus = self.spaces[way.space].tlb_cpus.iter();
        let see = cpus.filter(|_| !first.is_lazy()).map(|cpu| (cpu, u64::MAX)).collect();
        let sight = StaleTranslations { space: way.space, until_ns: see, folios: left.len() };
        self.fault_model.contents.translations.insert(stamp, sight);
        for batch_folio in left.iter().map(|&index| &batch_folios[index]) {
            let (pages, to) = (batch_folio.folio.len(), way.to);
            let away =
                UnmappedFolio { pages, to, written: stamp, copied: None, translations: stamp };
            self.fault_model.contents.unmapped.insert(unmap_key(way.space, batch_folio), away);
        }
    }

    /// Records a flush of a space's translations: `until` gives the time at which a CPU completes
    /// it; all other CPUs have completed it.
    pub(crate) fn record_flush(&mut self, space: SpaceId, until: impl Fn(usize) -> Option<u64>) {
        let now_ns = self.now_ns;
        let of_space = |sight: &&mut StaleTranslations| sight.space == space;
        for sight in self.fault_model.contents.translations.values_mut().filter(of_space) {
            for (&cpu, until_ns) in &mut sight.until_ns {
                *until_ns = until(cpu).unwrap_or(now_ns).min(*until_ns);
            }
        }
    }

    /// Records that the copy of these slices of a batch begins.
    pub(crate) fn record_copies(
        &mut self,
        space: SpaceId,
        batch_folios: &[BatchFolio],
        slices: &[CopySlice],
    ) {
        if !self.fault_model.contents.is_enabled {
            return;
        }
        let copied = folios_in_slices(batch_folios, slices, self.machine.params.page_bytes);
        let left_out = copied.first().copied().filter(|_| self.has_bug(Bug::StaleCopy));
        for index in copied.into_iter().filter(|index| Some(*index) != left_out) {
            self.record_copy(space, &batch_folios[index]);
        }
    }

    /// Records that the copy of a folio begins.
    pub(crate) fn record_copy(&mut self, space: SpaceId, batch_folio: &BatchFolio) {
        let now_ns = self.now_ns;
        if let Some(away) =
            self.fault_model.contents.unmapped.get_mut(&unmap_key(space, batch_folio))
        {
            away.copied = Some((now_ns, away.written));
        }
    }

    /// Records that a CPU went through a part since `turn_began_ns`, and wrote to it.
    pub(crate) fn record_writes(&mut self, cpu: usize, part: &GranuleRange, began_ns: u64) {
        if self.fault_model.contents.unmapped.is_empty() {
            return;
        }
        let region = &self.spaces[part.space].regions[part.region];
        let pages = region.pages_of_granules(part.first..part.first + part.granules);
        let at = |page: u64, flight: u64| ((part.space, part.region, page), flight);
        let (first, last) = (at(pages.start, 0), at(pages.end.max(1) - 1, u64::MAX));
        let turn_ns = [began_ns, self.now_ns];
        self.fault_model.contents.record_write(cpu, first..=last, turn_ns);
    }

    /// Records that a folio is visible again: as a copy, or unmoved.
    pub(crate) fn record_mapped(
        &mut self,
        space: SpaceId,
        batch_folio: &BatchFolio,
        as_copy: bool,
    ) {
        let flight = unmap_key(space, batch_folio);
        let Some(away) = self.fault_model.contents.unmapped.get(&flight) else { return };
        let sight = away.translations;
        if as_copy {
            self.finish_writes(flight, sight);
        }
        let (key, contents) = (flight.0, &mut self.fault_model.contents);
        let Some(away) = contents.unmapped.remove(&flight) else { return };
        if let Some(entry) = contents.translations.get_mut(&sight) {
            entry.folios -= 1;
            if entry.folios == 0 {
                contents.translations.remove(&sight);
            }
        }
        if !as_copy {
            return;
        }
        contents.mapped_copies += away.pages;
        contents.stale.remove(&key);
        let holds = away.copied.map_or(0, |(_, stamp)| stamp);
        if holds != away.written {
            contents.stale.insert(key, StaleContents { written: away.written, holds });
        }
    }

    /// Lets CPUs that are in the middle of a turn through a folio complete their writes to it.
    pub(crate) fn finish_writes(&mut self, flight: UnmapKey, sight: u64) {
        let key = flight.0;
        let Some(sight) = self.fault_model.contents.translations.get(&sight) else { return };
        let late = sight.until_ns.iter().filter(|&(_, &until_ns)| until_ns > 0);
        let cpus = CpuIndexSet::of(late.map(|(&cpu, _)| cpu));
        for cpu in cpus.iter() {
            let task = self.cpus[cpu].running.and_then(|task| self.tasks.get(task as usize));
            let Some(Op::Access(lines)) = task.and_then(|task| task.op) else { continue };
            let (part, region) = (lines.range, &self.spaces[key.0].regions[key.1]);
            let pages = region.pages_of_granules(part.first..part.first + part.granules);
            let is_there = (part.space, part.region) == (key.0, key.1) && pages.contains(&key.2);
            if is_there && lines.pattern.writes_milli > 0 && self.is_in_turn(cpu) {
                let turn_ns = [self.turn_began_ns(cpu), self.now_ns];
                self.fault_model.contents.record_write(cpu, flight..=flight, turn_ns);
            }
        }
    }
}

pub fn unmap_key(space: SpaceId, batch_folio: &BatchFolio) -> UnmapKey {
    ((space, batch_folio.folio.region, batch_folio.folio.pages.start), batch_folio.unmap_number)
}
