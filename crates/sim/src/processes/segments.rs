//! Segments of shared memory: address spaces without threads, which processes map.
//!
//! Each process that maps a segment sees all of its pages. The page tables of single processes are
//! not modelled: a page is unmapped for all of them at once, at the price of one entry in each.
//! Segments outlive the processes that map them.

use crate::ids::SpaceId;
use crate::memory::{MemoryRegion, SegmentMapping};
use crate::world::World;

impl World {
    /// Adds a segment, whose pages are those of the region.
    pub(crate) fn add_segment(&mut self, name: String, region: MemoryRegion) -> SpaceId {
        let mut region = region;
        (region.start, region.shared) = (0, true);
        let space = self.add_space(name, vec![region], 0);
        self.spaces[space].mappers = Some(Vec::new());
        space
    }

    /// Lets a process map a segment.
    pub(crate) fn map_segment(&mut self, process: SpaceId, mapping: SegmentMapping) {
        self.spaces[process].segments.push(mapping);
        self.spaces[mapping.space].mappers.get_or_insert_default().push(process);
    }

    /// Lets a process unmap all its segments.
    pub(crate) fn unmap_segments(&mut self, process: SpaceId) {
        for mapping in std::mem::take(&mut self.spaces[process].segments) {
            let mappers = self.spaces[mapping.space].mappers.get_or_insert_default();
            mappers.retain(|&mapper| mapper != process);
        }
    }

    /// Returns the processes that have pages of a space in their page tables: the process itself,
    /// or those that map the segment.
    pub(crate) fn mappers(&self, space: SpaceId) -> Vec<SpaceId> {
        self.spaces[space].mappers.clone().unwrap_or_else(|| vec![space])
    }

    /// Returns the number of page tables that have an entry for a page of a space.
    pub(crate) fn page_tables(&self, space: SpaceId) -> u64 {
        self.spaces[space].mappers.as_ref().map_or(1, |mappers| mappers.len().max(1) as u64)
    }

    /// Returns what a process maps, each region with its first address, in ascending order.
    pub(crate) fn mapped_regions(
        &self,
        process: SpaceId,
    ) -> impl Iterator<Item = (u64, SpaceId, &MemoryRegion)> {
        let space = &self.spaces[process];
        let own = space.regions.iter().map(move |region| (region.start, process, region));
        let segments = space.segments.iter().flat_map(|&SegmentMapping { space, start }| {
            self.spaces[space].regions.iter().map(move |region| (start, space, region))
        });
        own.chain(segments)
    }

    /// Returns the address of a page in the address space of a process that maps its region;
    /// `None` if the process does not map it.
    pub(crate) fn mapped_address(
        &self,
        process: SpaceId,
        (space, region): (SpaceId, usize),
        page: u64,
    ) -> Option<u64> {
        let region = &self.spaces[space].regions[region];
        let start = match space == process {
            true => region.start,
            false => {
                let mut segments = self.spaces[process].segments.iter();
                segments.find(|mapping| mapping.space == space)?.start
            }
        };
        Some(start + (region.address_of(page) - region.start))
    }
}
