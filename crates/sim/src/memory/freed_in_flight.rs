//! Pages that a process freed while a move had them out of sight.

use std::collections::BTreeMap;
use std::ops::Range;

use super::access_counters::PageKey;
use crate::ids::SpaceId;

/// Pages that were freed while they were out of sight.
#[derive(Debug, Default)]
pub struct FreedInFlight {
    /// Number of flights: each time that folios are taken out of sight counts as one.
    unmap_count: u64,
    /// The freed pages, with the last flight before that.
    freed: BTreeMap<PageKey, u64>,
}

impl FreedInFlight {
    /// Begins a flight, and returns its number.
    pub fn begin_unmap(&mut self) -> u64 {
        self.unmap_count += 1;
        self.unmap_count
    }

    /// Records that pages are freed. If a move has such a page out of sight, a page that is mapped
    /// there later does not belong to that move.
    pub fn record(&mut self, space: SpaceId, region: usize, pages: Range<u64>) {
        let Self { unmap_count, freed } = self;
        freed.extend(pages.map(|page| ((space, region, page), *unmap_count)));
    }

    /// Returns the last flight before a page was freed, if it was freed out of sight.
    pub fn freed_at(&self, page: PageKey) -> Option<u64> {
        self.freed.get(&page).copied()
    }

    /// Forgets the freed pages of a process that has ended.
    pub fn forget_space(&mut self, space: SpaceId) {
        self.freed.retain(|key, _| key.0 != space);
    }
}
