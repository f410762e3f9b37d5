//! Checks that moved pages hold what was written to them.
//!
//! A visible page holds what was written to it last; no record is needed for that. A page that is
//! taken out of sight gets a stamp, and a list of the CPUs that can still write to it through
//! translations that they have not flushed yet. Such a write changes the stamp. The copy carries
//! the stamp that the page had when the copy began. Both are compared when the copy becomes
//! visible.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::hardware::CpuIndexSet;
use crate::ids::SpaceId;
use crate::memory::{GranuleRange, MemoryRegion};

/// A folio, by its space, its region and its first page.
pub type FolioKey = (SpaceId, usize, u64);
/// One flight of a folio. The number is needed because the process may free the folio meanwhile and
/// map another one there.
pub type UnmapKey = (FolioKey, u64);

/// A folio out of sight.
#[derive(Clone, Debug)]
struct UnmappedFolio {
    pages: u64,
    /// Index of the node where its copy will be.
    to: usize,
    /// Stamp of what was written to it last.
    written: u64,
    /// When its copy began, and the stamp that was copied.
    copied: Option<(u64, u64)>,
    /// Key in [`ContentTracker::translations`].
    translations: u64,
}

/// The CPUs that can still reach a batch of folios through old translations.
#[derive(Clone, Debug)]
struct StaleTranslations {
    space: SpaceId,
    /// Time at which each CPU loses its translation, in virtual nanoseconds.
    until_ns: BTreeMap<usize, u64>,
    /// Number of folios that are still out of sight.
    folios: usize,
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
    is_enabled: bool,
    /// The last stamp that was assigned.
    last_stamp: u64,
    unmapped: BTreeMap<UnmapKey, UnmappedFolio>,
    translations: BTreeMap<u64, StaleTranslations>,
    /// Stale folios, by first page.
    pub stale: BTreeMap<FolioKey, StaleContents>,
    /// Base pages that became visible as copies.
    pub mapped_copies: u64,
}

impl ContentTracker {
    /// Creates a state with nothing out of sight.
    pub fn new(on: bool) -> Self {
        Self {
            is_enabled: on,
            last_stamp: 0,
            unmapped: BTreeMap::new(),
            translations: BTreeMap::new(),
            stale: BTreeMap::new(),
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

    fn next_stamp(&mut self) -> u64 {
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

    /// Records that folios of a space, each with its number of pages, were taken out of sight for
    /// copies on node `to`. These CPUs can still write to them.
    pub fn record_unmapped(&mut self, to: usize, cpus: &CpuIndexSet, folios: &[(UnmapKey, u64)]) {
        let Some(&(((space, ..), _), _)) = folios.first() else { return };
        let stamp = self.next_stamp();
        let until_ns = cpus.iter().map(|cpu| (cpu, u64::MAX)).collect();
        let translations = StaleTranslations { space, until_ns, folios: folios.len() };
        self.translations.insert(stamp, translations);
        for &(key, pages) in folios {
            let unmapped =
                UnmappedFolio { pages, to, written: stamp, copied: None, translations: stamp };
            self.unmapped.insert(key, unmapped);
        }
    }

    /// Records a flush of a space's translations: `until` gives the time at which a CPU completes
    /// it; all other CPUs have completed it.
    pub fn record_flush(
        &mut self,
        space: SpaceId,
        now_ns: u64,
        until: impl Fn(usize) -> Option<u64>,
    ) {
        let of_space = |translations: &&mut StaleTranslations| translations.space == space;
        for translations in self.translations.values_mut().filter(of_space) {
            for (&cpu, until_ns) in &mut translations.until_ns {
                *until_ns = until(cpu).unwrap_or(now_ns).min(*until_ns);
            }
        }
    }

    /// Records that the copy of a folio begins.
    pub fn record_copy(&mut self, folio: UnmapKey, now_ns: u64) {
        if let Some(unmapped) = self.unmapped.get_mut(&folio) {
            unmapped.copied = Some((now_ns, unmapped.written));
        }
    }

    /// Records that a CPU went through a part of a region in a turn, and wrote to it.
    pub fn record_writes(
        &mut self,
        cpu: usize,
        part: &GranuleRange,
        region: &MemoryRegion,
        turn_ns: [u64; 2],
    ) {
        if self.unmapped.is_empty() {
            return;
        }
        let pages = region.pages_of_granules(part.first..part.first + part.granules);
        let at = |page: u64, flight: u64| ((part.space, part.region, page), flight);
        let (first, last) = (at(pages.start, 0), at(pages.end.max(1) - 1, u64::MAX));
        self.record_write(cpu, first..=last, turn_ns);
    }

    /// Returns the CPUs that can still write to a folio out of sight.
    pub fn writers(&self, folio: UnmapKey) -> CpuIndexSet {
        let unmapped = self.unmapped.get(&folio);
        let translations = unmapped.and_then(|of| self.translations.get(&of.translations));
        let until_ns = translations.into_iter().flat_map(|of| &of.until_ns);
        CpuIndexSet::of(until_ns.filter(|&(_, &until_ns)| until_ns > 0).map(|(&cpu, _)| cpu))
    }

    /// Records that a folio is visible again: as a copy, or unmoved.
    pub fn record_mapped(&mut self, folio: UnmapKey, as_copy: bool) {
        let Some(unmapped) = self.unmapped.remove(&folio) else { return };
        if let Some(entry) = self.translations.get_mut(&unmapped.translations) {
            entry.folios -= 1;
            if entry.folios == 0 {
                self.translations.remove(&unmapped.translations);
            }
        }
        if !as_copy {
            return;
        }
        self.mapped_copies += unmapped.pages;
        self.stale.remove(&folio.0);
        let holds = unmapped.copied.map_or(0, |(_, stamp)| stamp);
        if holds != unmapped.written {
            let contents = StaleContents { written: unmapped.written, holds };
            self.stale.insert(folio.0, contents);
        }
    }
}
