//! Address spaces: which page is on which node, at about one byte a page.

use std::collections::BTreeSet;
use std::ops::Range;

use nodeward_model::{Nodemask, Pid};
use nodeward_scenario::Placement;

use crate::faults::SharedPages;
use crate::slab::Slab;
use crate::task::{CpuSet, Part, TaskId};

/// The index of an address space.
pub type SpaceId = usize;

/// Bytes of a chunk, which is what a page table covers and a huge page has.
pub const CHUNK_BYTES: u64 = 2 << 20;

/// Granules that are also counted together: a part of many is counted in few steps.
const BLOCK: usize = 256;

/// What is known of a page, in a byte: its node by index, and what is about to happen to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageByte(u8);

impl PageByte {
    /// Nothing is there.
    pub const ABSENT: Self = Self(0xff);
    const NODE: u8 = 0x3f;
    const LAZY: u8 = 0x40;
    const IN_FLIGHT: u8 = 0x80;

    /// On a node, by index.
    pub fn on(node: usize) -> Self {
        Self(node as u8 & Self::NODE)
    }

    /// The same, to move to whoever touches it next.
    pub fn lazy(self) -> Self {
        Self(self.0 | Self::LAZY)
    }

    /// The same, out of sight: who touches it waits.
    pub fn in_flight(self) -> Self {
        Self(self.0 | Self::IN_FLIGHT)
    }

    /// The same, back in sight.
    pub fn landed(self) -> Self {
        Self(self.0 & !Self::IN_FLIGHT)
    }

    /// The index of its node; none if nothing is there.
    pub fn node(self) -> Option<usize> {
        (self != Self::ABSENT).then_some(usize::from(self.0 & Self::NODE))
    }

    /// Whether it moves to whoever touches it next.
    pub fn is_lazy(self) -> bool {
        self != Self::ABSENT && self.0 & Self::LAZY != 0
    }

    /// Whether it is out of sight.
    pub fn is_in_flight(self) -> bool {
        self != Self::ABSENT && self.0 & Self::IN_FLIGHT != 0
    }
}

/// The pages of 2 MiB.
#[derive(Clone, Copy, Debug)]
enum Chunk {
    /// Base pages that are all alike.
    Alike(PageByte),
    /// One huge page.
    Huge(PageByte),
    /// Base pages, each for itself, in this row of the slab.
    Mixed(u32),
}

/// Memory of one kind, from end to end.
#[derive(Clone, Debug)]
pub struct Region {
    /// Its first address.
    pub start: u64,
    /// Its base pages.
    pub pages: u64,
    /// Whether faults bring huge pages.
    pub huge: bool,
    /// Base pages of a folio where there are no huge pages: a power of two, less than a chunk has.
    pub folio_pages: u64,
    /// Where fresh pages come from.
    pub placement: Placement,
    /// Whether other processes map it, too.
    pub shared: bool,
    /// The pages that a child of its process shares, as long as there is one.
    pub shared_with_child: Option<SharedPages>,
    /// Pages that somebody holds, by index: they cannot move.
    pub pinned: BTreeSet<u64>,
    chunk_pages: u64,
    chunks: Vec<Chunk>,
    mixed: Slab,
    granule_chunks: u64,
    nodes: usize,
    /// Pages by granule and node, then those that are lazy, then those in flight.
    counts: Vec<u32>,
    /// The same by [`BLOCK`] granules.
    blocks: Vec<u64>,
    /// How often something changed: who remembers counts sees by it whether they are still true.
    pub version: u64,
}

impl Region {
    /// Without pages in memory. Its pages are counted in so many granules at most, of equal size.
    pub fn new(start: u64, pages: u64, page_bytes: u64, nodes: usize, granules: u64) -> Self {
        let chunk_pages = (CHUNK_BYTES / page_bytes).max(1);
        let chunks = pages.div_ceil(chunk_pages);
        let granule_chunks = chunks.div_ceil(granules.max(1)).max(1);
        let granules = chunks.div_ceil(granule_chunks) as usize;
        Self {
            start,
            pages,
            huge: false,
            folio_pages: 1,
            placement: Placement::FirstTouch,
            shared: false,
            shared_with_child: None,
            pinned: BTreeSet::new(),
            chunk_pages,
            chunks: vec![Chunk::Alike(PageByte::ABSENT); chunks as usize],
            mixed: Slab::new(chunk_pages as usize),
            granule_chunks,
            nodes,
            counts: vec![0; granules * (nodes + 2)],
            blocks: vec![0; granules.div_ceil(BLOCK) * (nodes + 2)],
            version: 0,
        }
    }

    /// Base pages of a chunk.
    pub fn chunk_pages(&self) -> u64 {
        self.chunk_pages
    }

    /// How many granules it has.
    pub fn granules(&self) -> usize {
        self.counts.len() / (self.nodes + 2)
    }

    /// Base pages of a granule; the last one may have fewer.
    pub fn granule_pages(&self) -> u64 {
        self.granule_chunks * self.chunk_pages
    }

    /// The granules that hold these pages.
    pub fn granules_of(&self, pages: Range<u64>) -> Range<usize> {
        let size = self.granule_chunks * self.chunk_pages;
        (pages.start / size) as usize..pages.end.div_ceil(size) as usize
    }

    /// A page, by index.
    pub fn page(&self, page: u64) -> PageByte {
        match self.chunk(page) {
            Chunk::Alike(byte) | Chunk::Huge(byte) => byte,
            Chunk::Mixed(row) => self.mixed.row(row)[(page % self.chunk_pages) as usize],
        }
    }

    /// The pages that these granules hold.
    pub fn pages_of_granules(&self, granules: Range<usize>) -> Range<u64> {
        let size = self.granule_chunks * self.chunk_pages;
        (granules.start as u64 * size)..(granules.end as u64 * size).min(self.pages)
    }

    /// The chunk of a page; an empty one beyond the end.
    fn chunk(&self, page: u64) -> Chunk {
        let chunk = self.chunks.get((page / self.chunk_pages) as usize);
        chunk.copied().unwrap_or(Chunk::Alike(PageByte::ABSENT))
    }

    /// A page, and how many from it on, before `end`, are alike. The pages are of one chunk, unless
    /// nothing is there.
    pub fn run(&self, page: u64, end: u64) -> (PageByte, u64) {
        if page >= self.pages {
            return (PageByte::ABSENT, end - page);
        }
        let byte = self.page(page);
        let mut to = page;
        while to < end.min(self.pages) {
            let chunk = to / self.chunk_pages;
            let chunk_end = ((chunk + 1) * self.chunk_pages).min(end).min(self.pages);
            to = match self.chunks[chunk as usize] {
                Chunk::Alike(other) | Chunk::Huge(other) if other == byte => chunk_end,
                Chunk::Alike(_) | Chunk::Huge(_) => break,
                Chunk::Mixed(row) => {
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

    /// The pages of a chunk, if all of it lies within the region.
    pub fn whole_chunk(&self, page: u64) -> Option<Range<u64>> {
        let first = page / self.chunk_pages * self.chunk_pages;
        (first + self.chunk_pages <= self.pages).then(|| first..first + self.chunk_pages)
    }

    /// The memory that knowledge of its pages takes, in bytes.
    pub fn bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Chunk>()
            + self.mixed.bytes()
            + self.counts.capacity() * size_of::<u32>()
            + self.blocks.capacity() * size_of::<u64>()
            + size_of::<Self>()
    }

    /// Forgets all pages: it has none from now on, and takes no memory.
    pub fn dissolve(&mut self) {
        self.pages = 0;
        self.chunks = Vec::new();
        self.mixed = Slab::new(self.chunk_pages as usize);
        self.counts = Vec::new();
        self.blocks = Vec::new();
        self.pinned.clear();
        self.shared_with_child = None;
    }

    /// Whether somebody else maps a page, too.
    pub fn is_shared(&self, page: u64) -> bool {
        self.shared || self.shared_with_child.as_ref().is_some_and(|pages| pages.contains(page))
    }

    /// Whether a page is part of a huge page.
    pub fn is_huge(&self, page: u64) -> bool {
        matches!(self.chunk(page), Chunk::Huge(_))
    }

    /// What moves with a page: its huge page, or its folio, or the page alone where a folio is not
    /// whole any more.
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
            && self.run(first, end).1 == self.folio_pages;
        if is_whole { first..end } else { page..page + 1 }
    }

    /// How many pages there are on each node, lazy, and in flight, in some granules; added to
    /// `sums`, which has two places more than there are nodes.
    pub fn count(&self, granules: Range<usize>, sums: &mut [u64]) {
        let (width, all) = (self.nodes + 2, self.granules());
        let mut granule = granules.start;
        while granule < granules.end.min(all) {
            let end = (granule + BLOCK).min(all);
            if granule.is_multiple_of(BLOCK) && end <= granules.end {
                let counts = &self.blocks[granule / BLOCK * width..][..width];
                sums.iter_mut().zip(counts).for_each(|(sum, &count)| *sum += count);
                granule = end;
            } else {
                let counts = &self.counts[granule * width..][..width];
                sums.iter_mut().zip(counts).for_each(|(sum, &count)| *sum += u64::from(count));
                granule += 1;
            }
        }
    }

    /// The same of the whole region, page by page: it does not rely on what is counted.
    pub fn recount(&self, sums: &mut [u64]) {
        let width = self.nodes + 2;
        let mut add = |byte: PageByte, pages: u64| {
            places(byte, width).into_iter().flatten().for_each(|place| sums[place] += pages);
        };
        for (chunk, index) in self.chunks.iter().zip(0..) {
            let pages = self.pages_of(index);
            match *chunk {
                Chunk::Alike(byte) | Chunk::Huge(byte) => add(byte, pages),
                Chunk::Mixed(row) => {
                    self.mixed.row(row)[..pages as usize].iter().for_each(|&byte| add(byte, 1));
                }
            }
        }
    }

    /// Makes pages what a byte says. A huge page of which only a part is named becomes base pages.
    pub fn set(&mut self, pages: Range<u64>, to: PageByte) {
        let (mut page, last) = (pages.start, pages.end.min(self.pages));
        if let Some(shared) = self.shared_with_child.as_mut().filter(|_| to == PageByte::ABSENT) {
            shared.remove(pages);
        }
        while page < last {
            let chunk = page / self.chunk_pages;
            let first = chunk * self.chunk_pages;
            let end = (first + self.chunk_pages).min(last);
            self.set_in_chunk(chunk as usize, (page - first)..(end - first), to);
            page = end;
        }
    }

    /// Makes a chunk one huge page. One that ends beyond the region becomes base pages.
    pub fn set_huge(&mut self, page: u64, to: PageByte) {
        let chunk = (page / self.chunk_pages) as usize;
        let pages = self.pages_of(chunk);
        self.set_in_chunk(chunk, 0..pages, to);
        if pages == self.chunk_pages && to != PageByte::ABSENT {
            self.chunks[chunk] = Chunk::Huge(to);
        }
    }

    /// The pages of a chunk that are within the region.
    fn pages_of(&self, chunk: usize) -> u64 {
        self.chunk_pages.min(self.pages - chunk as u64 * self.chunk_pages)
    }

    fn set_in_chunk(&mut self, chunk: usize, pages: Range<u64>, to: PageByte) {
        self.version += 1;
        let width = self.nodes + 2;
        let granule = (chunk as u64 / self.granule_chunks) as usize;
        let all = self.pages_of(chunk);
        let granule_counts = &mut self.counts[granule * width..][..width];
        let block_counts = &mut self.blocks[granule / BLOCK * width..][..width];
        let mut book = |byte: PageByte, pages: u64, add: bool| {
            for place in places(byte, width).into_iter().flatten() {
                let (one, all) = (&mut granule_counts[place], &mut block_counts[place]);
                *one = if add { *one + pages as u32 } else { *one - pages as u32 };
                *all = if add { *all + pages } else { *all - pages };
            }
        };
        let chunk = &mut self.chunks[chunk];
        let count = pages.end - pages.start;
        if let Chunk::Alike(byte) | Chunk::Huge(byte) = *chunk {
            if count == all {
                book(byte, count, false);
                book(to, count, true);
                let stays_huge = matches!(chunk, Chunk::Huge(_)) && to != PageByte::ABSENT;
                *chunk = if stays_huge { Chunk::Huge(to) } else { Chunk::Alike(to) };
                return;
            }
            *chunk = Chunk::Mixed(self.mixed.add(byte));
        }
        let Chunk::Mixed(row) = *chunk else { unreachable!("made so above") };
        let bytes = &mut self.mixed.row_mut(row)[..all as usize];
        let changed = &mut bytes[pages.start as usize..pages.end as usize];
        for alike in changed.chunk_by(|a, b| a == b) {
            book(alike[0], alike.len() as u64, false);
            book(to, alike.len() as u64, true);
        }
        changed.fill(to);
        if bytes[0] == to && bytes[all as usize - 1] == to && bytes.iter().all(|&b| b == to) {
            self.mixed.remove(row);
            *chunk = Chunk::Alike(to);
        }
    }
}

/// Where a page is counted, of so many places.
fn places(byte: PageByte, width: usize) -> [Option<usize>; 3] {
    [byte.node(), byte.is_lazy().then_some(width - 2), byte.is_in_flight().then_some(width - 1)]
}

/// The memory of a process; what each turn needs stands first.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Space {
    /// Its regions, by ascending address.
    pub regions: Vec<Region>,
    /// Whether the process has ended.
    pub ended: bool,
    /// Whether its control group is frozen.
    pub frozen: bool,
    /// How often CPUs were taken out of `cpus`.
    pub pruned: u32,
    /// The process.
    pub pid: Pid,
    /// What it is called.
    pub name: String,
    /// The CPUs that may have translations of it.
    pub cpus: CpuSet,
    /// Threads that live in it.
    pub tasks: Vec<TaskId>,
    /// Its memory control group, by index.
    pub group: usize,
    /// Threads that wait for pages in flight.
    pub waiting: Vec<TaskId>,
    /// CPU time of threads that left, in nanoseconds.
    pub left_ns: u64,
    /// The thread that began it.
    pub first_task: Option<TaskId>,
    /// What it did for its workload: lines, pages, messages or lives.
    pub done: u64,
    /// The nodes that its cpuset has; none if that is all.
    pub cpuset: Option<Nodemask>,
    /// Threads that stopped because it is frozen.
    pub stopped: Vec<TaskId>,
}

impl Space {
    /// Pages on each node, lazy, and in flight, of some granules.
    pub fn count(&self, part: &Part, nodes: usize) -> Vec<u64> {
        let mut sums = vec![0; nodes + 2];
        self.regions[part.region].count(part.first..part.first + part.granules, &mut sums);
        sums
    }

    /// The same of everything.
    pub fn count_all(&self, nodes: usize) -> Vec<u64> {
        let mut sums = vec![0; nodes + 2];
        self.regions.iter().for_each(|region| region.count(0..region.granules(), &mut sums));
        sums
    }
}

#[cfg(test)]
mod tests;
