//! Regions of address spaces: the node of each page, at about one byte per page.
//!
//! Pages are numbered so that each thread's part is a run of them. Their addresses are in the same
//! order, unless parts are interleaved ([`Interleaving`]).

mod addresses;

use std::collections::BTreeSet;
use std::ops::Range;

use nodeward_scenario::MemoryPlacement;

use super::interleaving::Interleaving;
use super::page_byte::PageByte;
use super::region_bits::RegionBits;
use super::slab::Slab;
use crate::ids::SpaceId;

/// Bytes of a chunk, which is the range of one page table and of a huge page.
pub const CHUNK_BYTES: u64 = 2 << 20;

/// Granules that are also counted together, so that a part of many granules is counted in few
/// steps.
const BLOCK_GRANULES: usize = 256;

/// A contiguous mapping of one kind.
#[derive(Clone, Debug)]
pub struct MemoryRegion {
    /// Its first address.
    pub start: u64,
    /// The number of its base pages.
    pub pages: u64,
    page_bytes: u64,
    /// How its pages lie in the address space.
    pub interleaving: Interleaving,
    /// Whether faults bring in huge pages.
    pub faults_huge: bool,
    /// Base pages per folio where there are no huge pages: a power of two, smaller than a chunk.
    pub folio_pages: u64,
    /// The source of fresh pages.
    pub placement: MemoryPlacement,
    /// Whether other processes map it, too.
    pub shared: bool,
    /// The pages shared with a child of its process, as long as there is one.
    pub shared_with_child: Option<RegionBits>,
    /// The pages that were not written since their soft-dirty bits were cleared, if they ever were.
    pub not_written: Option<RegionBits>,
    /// Pinned pages, by index: they cannot move.
    pub pinned: BTreeSet<u64>,
    chunk_pages: u64,
    chunks: Vec<ChunkPages>,
    mixed: Slab,
    granule_chunks: u64,
    nodes: usize,
    /// Counts by granule: pages on each node, then lazy pages, then pages in flight.
    counts: Vec<u32>,
    /// The same by [`BLOCK_GRANULES`] granules.
    blocks: Vec<u64>,
    /// Number of changes. A cached count is valid while this number is unchanged.
    pub version: u64,
}

impl MemoryRegion {
    /// Creates a region without present pages. They are counted in at most `granules` granules of
    /// equal size.
    pub fn new(start: u64, pages: u64, page_bytes: u64, nodes: usize, granules: u64) -> Self {
        let chunk_pages = (CHUNK_BYTES / page_bytes).max(1);
        let chunks = pages.div_ceil(chunk_pages);
        let granule_chunks = chunks.div_ceil(granules.max(1)).max(1);
        let granules = chunks.div_ceil(granule_chunks) as usize;
        Self {
            start,
            pages,
            page_bytes,
            interleaving: Interleaving::NONE,
            faults_huge: false,
            folio_pages: 1,
            placement: MemoryPlacement::FirstTouch,
            shared: false,
            shared_with_child: None,
            not_written: None,
            pinned: BTreeSet::new(),
            chunk_pages,
            chunks: vec![ChunkPages::Uniform(PageByte::ABSENT); chunks as usize],
            mixed: Slab::new(chunk_pages as usize),
            granule_chunks,
            nodes,
            counts: vec![0; granules * (nodes + 2)],
            blocks: vec![0; granules.div_ceil(BLOCK_GRANULES) * (nodes + 2)],
            version: 0,
        }
    }

    /// Returns the number of base pages in a chunk.
    pub fn chunk_pages(&self) -> u64 {
        self.chunk_pages
    }

    /// Returns the number of granules.
    pub fn granules(&self) -> usize {
        self.counts.len() / (self.nodes + 2)
    }

    /// Returns the number of base pages in a granule; the last one may have fewer.
    pub fn granule_pages(&self) -> u64 {
        self.granule_chunks * self.chunk_pages
    }

    /// Returns the granules of a range of pages.
    pub fn granules_of(&self, pages: Range<u64>) -> Range<usize> {
        let size = self.granule_chunks * self.chunk_pages;
        (pages.start / size) as usize..pages.end.div_ceil(size) as usize
    }

    /// Returns a page, by index.
    pub fn page(&self, page: u64) -> PageByte {
        match self.chunk(page) {
            ChunkPages::Uniform(byte) | ChunkPages::Huge(byte) => byte,
            ChunkPages::Mixed(row) => self.mixed.row(row)[(page % self.chunk_pages) as usize],
        }
    }

    /// Returns the pages of a range of granules.
    pub fn pages_of_granules(&self, granules: Range<usize>) -> Range<u64> {
        let size = self.granule_chunks * self.chunk_pages;
        (granules.start as u64 * size)..(granules.end as u64 * size).min(self.pages)
    }

    /// Returns the chunk of a page, or an empty one beyond the end.
    fn chunk(&self, page: u64) -> ChunkPages {
        let chunk = self.chunks.get((page / self.chunk_pages) as usize);
        chunk.copied().unwrap_or(ChunkPages::Uniform(PageByte::ABSENT))
    }

    /// Returns a page and the number of pages from it on, before `end`, in the same state. The
    /// pages are of one chunk, unless they are absent.
    pub fn uniform_run(&self, page: u64, end: u64) -> (PageByte, u64) {
        if page >= self.pages {
            return (PageByte::ABSENT, end - page);
        }
        let byte = self.page(page);
        let mut to = page;
        while to < end.min(self.pages) {
            let chunk = to / self.chunk_pages;
            let chunk_end = ((chunk + 1) * self.chunk_pages).min(end).min(self.pages);
            to = match self.chunks[chunk as usize] {
                ChunkPages::Uniform(other) | ChunkPages::Huge(other) if other == byte => chunk_end,
                ChunkPages::Uniform(_) | ChunkPages::Huge(_) => break,
                ChunkPages::Mixed(row) => {
                    let first = chunk * self.chunk_pages;
                    let pages = (to - first) as usize..(chunk_end - first) as usize;
                    let bytes = &self.mixed.row(row)[pages];
                    let alike = bytes.iter().position(|&other| other != byte);
                    to + alike.unwrap_or(bytes.len()) as u64
                }
            };
            if to < chunk_end || byte != PageByte::ABSENT {
                break;
            }
        }
        (byte, to - page)
    }

    /// Returns the pages of a chunk, if all of it lies within the region.
    pub fn whole_chunk(&self, page: u64) -> Option<Range<u64>> {
        let first = page / self.chunk_pages * self.chunk_pages;
        (first + self.chunk_pages <= self.pages).then(|| first..first + self.chunk_pages)
    }

    /// Returns the memory that the record of its pages takes, in bytes.
    pub fn state_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<ChunkPages>()
            + self.mixed.heap_bytes()
            + self.counts.capacity() * size_of::<u32>()
            + self.blocks.capacity() * size_of::<u64>()
            + size_of::<Self>()
    }

    /// Forgets all pages. The region has none from now on, and takes no memory.
    pub fn clear(&mut self) {
        self.pages = 0;
        self.chunks = Vec::new();
        self.mixed = Slab::new(self.chunk_pages as usize);
        self.counts = Vec::new();
        self.blocks = Vec::new();
        self.pinned.clear();
        self.shared_with_child = None;
        self.not_written = None;
    }

    /// Returns whether another process maps a page, too.
    pub fn is_shared(&self, page: u64) -> bool {
        self.shared || self.shared_with_child.as_ref().is_some_and(|pages| pages.contains(page))
    }

    /// Returns the pages that are present.
    pub fn present_pages(&self) -> RegionBits {
        let mut present = RegionBits::none_of(self.pages);
        let mut page = 0;
        while page < self.pages {
            let (byte, alike) = self.uniform_run(page, self.pages);
            if byte != PageByte::ABSENT {
                present.insert(page..page + alike);
            }
            page += alike;
        }
        present
    }

    /// Returns whether a page is part of a huge page.
    pub fn is_huge(&self, page: u64) -> bool {
        matches!(self.chunk(page), ChunkPages::Huge(_))
    }

    /// Returns the pages that move together with a page: its huge page or folio, or the page alone
    /// where the folio is not whole any more.
    pub fn folio(&self, page: u64) -> Range<u64> {
        if self.is_huge(page) {
            let first = page / self.chunk_pages * self.chunk_pages;
            return first..first + self.chunk_pages;
        }
        let first = page / self.folio_pages * self.folio_pages;
        let end = first + self.folio_pages;
        let is_whole = self.folio_pages > 1
            && end <= self.pages
            && self.page(page).node().is_some()
            && self.uniform_run(first, end).1 == self.folio_pages;
        if is_whole { first..end } else { page..page + 1 }
    }

    /// Adds the counts of some granules to `sums`: pages on each node, lazy pages, pages in flight.
    /// `sums` has two entries more than there are nodes.
    pub fn add_counts(&self, granules: Range<usize>, sums: &mut [u64]) {
        let (width, all) = (self.nodes + 2, self.granules());
        let mut granule = granules.start;
        while granule < granules.end.min(all) {
            let end = (granule + BLOCK_GRANULES).min(all);
            if granule.is_multiple_of(BLOCK_GRANULES) && end <= granules.end {
                let counts = &self.blocks[granule / BLOCK_GRANULES * width..][..width];
                sums.iter_mut().zip(counts).for_each(|(sum, &count)| *sum += count);
                granule = end;
            } else {
                let counts = &self.counts[granule * width..][..width];
                sums.iter_mut().zip(counts).for_each(|(sum, &count)| *sum += u64::from(count));
                granule += 1;
            }
        }
    }

    /// Counts the whole region page by page, without use of the maintained counts.
    pub fn recount(&self, sums: &mut [u64]) {
        let width = self.nodes + 2;
        let mut add = |byte: PageByte, pages: u64| {
            counter_indices(byte, width)
                .into_iter()
                .flatten()
                .for_each(|place| sums[place] += pages);
        };
        for (chunk, index) in self.chunks.iter().zip(0..) {
            let pages = self.pages_in_chunk(index);
            match *chunk {
                ChunkPages::Uniform(byte) | ChunkPages::Huge(byte) => add(byte, pages),
                ChunkPages::Mixed(row) => {
                    self.mixed.row(row)[..pages as usize].iter().for_each(|&byte| add(byte, 1));
                }
            }
        }
    }

    /// Sets the state of pages. A huge page that is only partly in the range is split into base
    /// pages.
    pub fn set(&mut self, pages: Range<u64>, to: PageByte) {
        let (mut page, last) = (pages.start, pages.end.min(self.pages));
        if to == PageByte::ABSENT {
            let bits = [&mut self.shared_with_child, &mut self.not_written].into_iter().flatten();
            bits.for_each(|bits| bits.remove(pages.clone()));
        }
        while page < last {
            let chunk = page / self.chunk_pages;
            let first = chunk * self.chunk_pages;
            let end = (first + self.chunk_pages).min(last);
            self.set_in_chunk(chunk as usize, (page - first)..(end - first), to);
            page = end;
        }
    }

    /// Makes a chunk one huge page. A chunk that extends beyond the region becomes base pages.
    pub fn set_huge(&mut self, page: u64, to: PageByte) {
        let chunk = (page / self.chunk_pages) as usize;
        let pages = self.pages_in_chunk(chunk);
        self.set_in_chunk(chunk, 0..pages, to);
        if pages == self.chunk_pages && to != PageByte::ABSENT {
            self.chunks[chunk] = ChunkPages::Huge(to);
        }
    }

    /// Returns the number of pages of a chunk that are within the region.
    fn pages_in_chunk(&self, chunk: usize) -> u64 {
        self.chunk_pages.min(self.pages - chunk as u64 * self.chunk_pages)
    }

    fn set_in_chunk(&mut self, chunk: usize, pages: Range<u64>, to: PageByte) {
        self.version += 1;
        let width = self.nodes + 2;
        let granule = (chunk as u64 / self.granule_chunks) as usize;
        let all = self.pages_in_chunk(chunk);
        let granule_counts = &mut self.counts[granule * width..][..width];
        let block_counts = &mut self.blocks[granule / BLOCK_GRANULES * width..][..width];
        let mut book = |byte: PageByte, pages: u64, add: bool| {
            for place in counter_indices(byte, width).into_iter().flatten() {
                let (one, all) = (&mut granule_counts[place], &mut block_counts[place]);
                *one = if add { *one + pages as u32 } else { *one - pages as u32 };
                *all = if add { *all + pages } else { *all - pages };
            }
        };
        let chunk = &mut self.chunks[chunk];
        let count = pages.end - pages.start;
        if let ChunkPages::Uniform(byte) | ChunkPages::Huge(byte) = *chunk {
            if count == all {
                book(byte, count, false);
                book(to, count, true);
                let stays_huge = matches!(chunk, ChunkPages::Huge(_)) && to != PageByte::ABSENT;
                *chunk = if stays_huge { ChunkPages::Huge(to) } else { ChunkPages::Uniform(to) };
                return;
            }
            *chunk = ChunkPages::Mixed(self.mixed.add(byte));
        }
        let ChunkPages::Mixed(row) = *chunk else { unreachable!("made so above") };
        let bytes = &mut self.mixed.row_mut(row)[..all as usize];
        let changed = &mut bytes[pages.start as usize..pages.end as usize];
        for alike in changed.chunk_by(|a, b| a == b) {
            book(alike[0], alike.len() as u64, false);
            book(to, alike.len() as u64, true);
        }
        changed.fill(to);
        if bytes[0] == to && bytes[all as usize - 1] == to && bytes.iter().all(|&b| b == to) {
            self.mixed.remove(row);
            *chunk = ChunkPages::Uniform(to);
        }
    }
}

/// Returns the positions at which a page is counted, of `width` positions.
fn counter_indices(byte: PageByte, width: usize) -> [Option<usize>; 3] {
    [byte.node(), byte.is_lazy().then_some(width - 2), byte.is_in_flight().then_some(width - 1)]
}

/// The granules of a region that an operation uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GranuleRange {
    /// The address space.
    pub space: SpaceId,
    /// The index of the region.
    pub region: usize,
    /// The first granule.
    pub first: usize,
    /// The number of granules, 1 or more.
    pub granules: usize,
}

/// The pages of 2 MiB.
#[derive(Clone, Copy, Debug)]
enum ChunkPages {
    /// Base pages in the same state.
    Uniform(PageByte),
    /// One huge page.
    Huge(PageByte),
    /// Base pages in different states, stored in this row of the slab.
    Mixed(u32),
}

#[cfg(test)]
mod tests;
