//! The addresses of a region's pages.

use std::ops::Range;

use nodeward_model::Range as AddressRange;

use super::MemoryRegion;

impl MemoryRegion {
    /// Returns the address of a page in the address space that owns the region.
    pub fn address_of(&self, page: u64) -> u64 {
        self.start + self.interleaving.place_of(page, self.pages) * self.page_bytes
    }

    /// Returns the page `offset` bytes behind the start; `None` behind the end.
    pub fn page_at(&self, offset: u64) -> Option<u64> {
        let place = offset / self.page_bytes;
        (place < self.pages).then(|| self.interleaving.page_at(place, self.pages))
    }

    /// Returns its addresses where it is mapped at `start`.
    pub fn address_range(&self, start: u64) -> AddressRange {
        AddressRange::new(start, start + self.pages * self.page_bytes)
    }

    /// Returns addresses among which are all of some granules, where it is mapped at `start`.
    pub fn address_range_of(&self, start: u64, granules: Range<usize>) -> AddressRange {
        if self.interleaving.parts > 1 {
            return self.address_range(start);
        }
        let pages = self.pages_of_granules(granules);
        let address = |page: u64| start + page * self.page_bytes;
        AddressRange::new(address(pages.start), address(pages.end))
    }
}
