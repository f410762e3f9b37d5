//! The free pages of one node: runs of 2^n pages, with n up to a chunk, like the kernel's buddy
//! allocator. It holds counts and sets only; the pages themselves are the caller's.
//!
//! The free pages of a chunk are bits, in which blocks of an order are searched on request. So
//! nothing is ever merged: a block is whole as soon as its last page is free. Chunks are in one
//! list for each order of their largest block. A request takes a block of the smallest sufficient
//! order, from the chunk that was used last.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::page_bits::{ORDER_MAX, PageBits};

/// Lists of chunks: one for each order.
const ORDERS: usize = ORDER_MAX as usize + 1;

/// Number of chunks examined in search of a preferred one.
const CHUNKS_SEARCHED: usize = 8;

/// The number of a chunk in its pool.
pub type ChunkNo = u32;

/// The free pages of a node. `S` is the data kept for each chunk and handed out with it.
pub struct BuddyZone<S> {
    /// By chunk number; `None` where the chunk is not in this zone.
    chunks: Vec<Option<Box<ZoneChunk<S>>>>,
    /// The first chunk of each list.
    heads: [Option<ChunkNo>; ORDERS],
    /// Chunks with missing pages that may be brought into memory.
    growable: BTreeSet<ChunkNo>,
    /// Chunks with missing pages that stay missing.
    partial: BTreeSet<ChunkNo>,
    chunk_pages: usize,
    free_pages: usize,
    held_pages: usize,
    least_free_pages: usize,
}

struct ZoneChunk<S> {
    backing: S,
    /// Pages that are in memory.
    present: PageBits,
    /// Those of them without owner.
    free: PageBits,
    /// Missing pages may be brought into memory; and a thread is doing so now.
    grows: bool,
    growing: bool,
    /// The list that it is in, and its neighbours there.
    list: Option<usize>,
    previous: Option<ChunkNo>,
    next: Option<ChunkNo>,
}

impl<S> BuddyZone<S> {
    /// A zone without pages, whose chunks have `chunk_pages` pages.
    pub fn new(chunk_pages: usize) -> Self {
        Self {
            chunks: Vec::new(),
            heads: [None; ORDERS],
            growable: BTreeSet::new(),
            partial: BTreeSet::new(),
            chunk_pages,
            free_pages: 0,
            held_pages: 0,
            least_free_pages: 0,
        }
    }

    /// Returns the number of pages without owner.
    pub fn free_pages(&self) -> usize {
        self.free_pages
    }

    /// Returns the number of pages in memory.
    pub fn held_pages(&self) -> usize {
        self.held_pages
    }

    /// Returns the minimum of free pages since the last call.
    pub fn take_least_free(&mut self) -> usize {
        std::mem::replace(&mut self.least_free_pages, self.free_pages)
    }

    /// Returns whether there is a block of an order.
    pub fn has(&self, order: u32) -> bool {
        self.heads[order as usize..].iter().any(Option::is_some)
    }

    /// Takes at most `most` blocks of an order, and passes chunk and first page of each to `took`.
    /// They come from chunks whose largest block is the smallest sufficient one, in address order.
    /// This uses up broken blocks first, and neighbouring pages are allocated together and share a
    /// cache line of the page table.
    pub fn take(&mut self, order: u32, most: usize, mut took: impl FnMut(ChunkNo, usize)) -> usize {
        let mut taken = 0;
        while taken < most {
            let Some(number) = self.heads[order as usize..].iter().flatten().next().copied() else {
                break;
            };
            let chunk = self.chunk_mut(number);
            let blocks = chunk.free.blocks(order);
            for start in blocks.iter().take(most - taken) {
                chunk.free.remove_all(start..start + (1 << order));
                took(number, start);
                taken += 1;
            }
            self.relink(number);
        }
        self.free_pages -= taken << order;
        self.least_free_pages = self.least_free_pages.min(self.free_pages);
        taken
    }

    /// Takes back pages of a chunk of this zone.
    pub fn put(&mut self, number: ChunkNo, pages: Range<usize>) {
        let chunk = self.chunk_mut(number);
        debug_assert!(pages.clone().all(|page| chunk.present.contains(page)));
        debug_assert!(pages.clone().all(|page| !chunk.free.contains(page)));
        chunk.free.insert_all(pages.clone());
        self.free_pages += pages.len();
        self.relink(number);
    }

    /// Adds a chunk whose first `pages` pages are in memory and free. `grows`: its other pages may
    /// be brought into memory later.
    pub fn insert_chunk(&mut self, number: ChunkNo, shell: S, pages: usize, grows: bool) {
        let index = number as usize;
        if self.chunks.len() <= index {
            self.chunks.resize_with(index + 1, || None);
        }
        let present = PageBits::of(0..pages);
        let chunk = ZoneChunk {
            backing: shell,
            present,
            free: present,
            grows,
            growing: false,
            list: None,
            previous: None,
            next: None,
        };
        debug_assert!(self.chunks[index].is_none(), "a chunk is in one zone only");
        self.chunks[index] = Some(Box::new(chunk));
        self.free_pages += pages;
        self.held_pages += pages;
        self.track_missing(number);
        self.relink(number);
    }

    /// Takes a chunk whose present pages are all free and are its first ones without a gap; returns
    /// it with their number. Prefers chunks that have all pages, and among the recent ones of those
    /// a `wanted` one.
    pub fn take_idle(&mut self, wanted: impl Fn(ChunkNo) -> bool) -> Option<(S, usize)> {
        let number = self.idle(wanted)?;
        let pages = self.chunk(number).present.len();
        Some((self.remove_chunk(number), pages))
    }

    /// Returns whether there is such a chunk.
    pub fn has_idle(&self) -> bool {
        self.idle(|_| true).is_some()
    }

    fn idle(&self, wanted: impl Fn(ChunkNo) -> bool) -> Option<ChunkNo> {
        let order = self.chunk_pages.ilog2() as usize;
        let whole = || std::iter::successors(self.heads[order], |&number| self.chunk(number).next);
        let first = whole().take(CHUNKS_SEARCHED).find(|&number| wanted(number)).or(whole().next());
        first.or_else(|| self.partial.iter().copied().find(|&number| self.is_idle(number)))
    }

    /// Takes a chunk like [`BuddyZone::take_idle`] that has room for `pages` more pages and backing
    /// that `suits`, one of few that are examined. Prefers a `wanted` one.
    pub fn take_roomy(
        &mut self,
        pages: usize,
        suits: impl Fn(&S) -> bool,
        wanted: impl Fn(ChunkNo) -> bool,
    ) -> Option<(S, usize)> {
        let has_room = |number: ChunkNo| {
            let chunk = self.chunk(number);
            chunk.present.len() + pages <= self.chunk_pages
                && suits(&chunk.backing)
                && self.is_idle(number)
        };
        let few = || self.partial.iter().copied().take(CHUNKS_SEARCHED);
        let found = few().find(|&number| wanted(number) && has_room(number));
        let number = found.or_else(|| few().find(|&number| has_room(number)))?;
        let present = self.chunk(number).present.len();
        Some((self.remove_chunk(number), present))
    }

    fn is_idle(&self, number: ChunkNo) -> bool {
        let chunk = self.chunk(number);
        let first = PageBits::of(0..chunk.present.len());
        chunk.present == first && chunk.free == first && !first.is_empty()
    }

    /// Chooses missing pages for a block of order `better` if a chunk has room for it, else for one
    /// of `order`. The caller brings them into memory, then calls [`BuddyZone::finish_growth`].
    pub fn begin_growth(&mut self, order: u32, better: u32) -> Option<(ChunkNo, Range<usize>)> {
        let block_of = |order: u32| {
            let chunks = self.growable.iter().take(CHUNKS_SEARCHED);
            let mut blocks = chunks.filter_map(|&number| {
                let (start, _) = self.missing(number).best_block(order)?;
                Some((number, start..start + (1 << order)))
            });
            blocks.next()
        };
        let (number, pages) = block_of(better.max(order)).or_else(|| block_of(order))?;
        self.chunk_mut(number).growing = true;
        self.growable.remove(&number);
        Some((number, pages))
    }

    /// Ends [`BuddyZone::begin_growth`]: `pages` are in memory now; empty if it failed.
    pub fn finish_growth(&mut self, number: ChunkNo, pages: Range<usize>) {
        let chunk = self.chunk_mut(number);
        chunk.growing = false;
        chunk.present.insert_all(pages.clone());
        chunk.free.insert_all(pages.clone());
        self.held_pages += pages.len();
        self.free_pages += pages.len();
        self.track_missing(number);
        self.relink(number);
    }

    /// Chooses at most `most` free pages to be freed to the kernel, whole chunks first. The caller
    /// frees them, then calls [`BuddyZone::finish_shrink`], or [`BuddyZone::undo_shrink`] on
    /// failure. Until then they are counted nowhere.
    pub fn begin_shrink(&mut self, most: usize) -> Option<(ChunkNo, Range<usize>)> {
        let mut lists = self.heads.iter().rev().flatten().copied();
        let number = lists.find(|&number| !self.chunk(number).growing)?;
        let chunk = self.chunk_mut(number);
        let order = chunk.free.largest_order()?;
        let start = chunk.free.blocks(order).iter().next()?;
        let pages = start..start + most.min(1 << order);
        chunk.free.remove_all(pages.clone());
        self.held_pages -= pages.len();
        self.free_pages -= pages.len();
        self.least_free_pages = self.least_free_pages.min(self.free_pages);
        self.relink(number);
        Some((number, pages))
    }

    /// Ends [`BuddyZone::begin_shrink`]. Returns the chunk if it has no pages left.
    pub fn finish_shrink(&mut self, number: ChunkNo, pages: Range<usize>) -> Option<S> {
        let chunk = self.chunk_mut(number);
        chunk.present.remove_all(pages.clone());
        if chunk.present.is_empty() && !chunk.growing {
            return Some(self.remove_chunk(number));
        }
        self.track_missing(number);
        None
    }

    /// Takes back pages that [`BuddyZone::begin_shrink`] chose, because they could not be freed.
    pub fn undo_shrink(&mut self, number: ChunkNo, pages: Range<usize>) {
        self.held_pages += pages.len();
        self.put(number, pages);
    }

    /// Returns the data of all chunks, each with whether it has pages in use. For the pool's end.
    pub fn into_chunks(self) -> impl Iterator<Item = (S, bool)> {
        self.chunks.into_iter().flatten().map(|chunk| (chunk.backing, chunk.present != chunk.free))
    }

    fn track_missing(&mut self, number: ChunkNo) {
        if self.chunk(number).growing || self.missing(number).is_empty() {
            return;
        }
        match self.chunk(number).grows {
            true => self.growable.insert(number),
            false => self.partial.insert(number),
        };
    }

    fn missing(&self, number: ChunkNo) -> PageBits {
        PageBits::of(0..self.chunk_pages).without(&self.chunk(number).present)
    }

    fn remove_chunk(&mut self, number: ChunkNo) -> S {
        self.unlink(number);
        self.growable.remove(&number);
        self.partial.remove(&number);
        let chunk = self.chunks[number as usize].take().expect("it is in this zone");
        self.free_pages -= chunk.free.len();
        self.held_pages -= chunk.present.len();
        self.least_free_pages = self.least_free_pages.min(self.free_pages);
        chunk.backing
    }

    /// Moves a chunk to the front of the list of its largest block's order.
    fn relink(&mut self, number: ChunkNo) {
        let list = self.chunk(number).free.largest_order().map(|order| order as usize);
        if list == self.chunk(number).list {
            return;
        }
        self.unlink(number);
        let Some(list) = list else { return };
        let second = self.heads[list].replace(number);
        let chunk = self.chunk_mut(number);
        (chunk.list, chunk.previous, chunk.next) = (Some(list), None, second);
        if let Some(second) = second {
            self.chunk_mut(second).previous = Some(number);
        }
    }

    fn unlink(&mut self, number: ChunkNo) {
        let chunk = self.chunk_mut(number);
        let Some(list) = chunk.list.take() else { return };
        let (previous, next) = (chunk.previous.take(), chunk.next.take());
        match previous {
            Some(previous) => self.chunk_mut(previous).next = next,
            None => self.heads[list] = next,
        }
        if let Some(next) = next {
            self.chunk_mut(next).previous = previous;
        }
    }

    fn chunk(&self, number: ChunkNo) -> &ZoneChunk<S> {
        self.chunks[number as usize].as_deref().expect("it is in this zone")
    }

    fn chunk_mut(&mut self, number: ChunkNo) -> &mut ZoneChunk<S> {
        self.chunks[number as usize].as_deref_mut().expect("it is in this zone")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CHUNK_PAGES: usize = 512;

    /// A zone with whole chunks.
    fn zone(chunks: u32) -> BuddyZone<u32> {
        let mut zone = BuddyZone::new(CHUNK_PAGES);
        (0..chunks).for_each(|chunk| zone.insert_chunk(chunk, chunk, CHUNK_PAGES, true));
        zone
    }

    fn take(zone: &mut BuddyZone<u32>, order: u32, most: usize) -> Vec<(ChunkNo, usize)> {
        let mut taken = Vec::new();
        let count = zone.take(order, most, |chunk, page| taken.push((chunk, page)));
        assert_eq!(count, taken.len());
        taken
    }

    /// Goal: small runs come out of a block that is broken already; large blocks stay whole.
    #[test]
    fn what_is_broken_is_used_up_first() {
        let mut zone = zone(2);
        let first = take(&mut zone, 0, 1)[0];
        let second = take(&mut zone, 0, 1)[0];
        assert_eq!((first.0, first.1 ^ 1), second, "its buddy");
        assert_eq!(take(&mut zone, 9, 2).len(), 1, "the other chunk is whole");
        assert_eq!(take(&mut zone, 8, 2), [(first.0, 256)]);
    }

    /// Goal: blocks become whole again, whatever the order in which pages come back.
    #[test]
    fn what_comes_back_is_whole_again() {
        let mut zone = zone(1);
        let taken = take(&mut zone, 0, CHUNK_PAGES);
        assert!(!zone.has(0));
        for step in [0, 1] {
            taken.iter().filter(|(_, page)| page % 2 == step).for_each(|&(chunk, page)| {
                zone.put(chunk, page..page + 1);
            });
            assert_eq!(zone.has(1), step == 1, "before that no page has its buddy");
        }
        assert_eq!(take(&mut zone, 9, 1), [(0, 0)]);
    }

    /// Goal: a zone grows by missing pages of its chunks, and a chunk without pages leaves it.
    #[test]
    fn chunks_grow_and_go() {
        let mut zone = zone(1);
        assert_eq!(zone.begin_growth(0, 6), None, "nothing is missing");
        let (chunk, gone) = zone.begin_shrink(100).unwrap();
        assert_eq!((chunk, gone.clone()), (0, 0..100));
        assert_eq!((zone.free_pages(), zone.held_pages()), (412, 412));
        zone.undo_shrink(chunk, gone);
        assert_eq!((zone.free_pages(), zone.held_pages()), (512, 512));
        let (chunk, gone) = zone.begin_shrink(100).unwrap();
        assert_eq!(zone.finish_shrink(chunk, gone), None);
        assert_eq!((zone.free_pages(), zone.held_pages()), (412, 412));

        assert_eq!(zone.begin_growth(7, 6), None, "100 pages are not 128");
        assert_eq!(zone.begin_growth(0, 6), Some((0, 0..64)));
        assert_eq!(zone.begin_growth(0, 6), None, "one at a time");
        assert_eq!(zone.begin_shrink(1), None, "its pages are being counted");
        zone.finish_growth(0, 0..64);
        assert_eq!((zone.free_pages(), zone.held_pages()), (476, 476));

        let mut left = Vec::new();
        while let Some((chunk, pages)) = zone.begin_shrink(usize::MAX) {
            left.extend(zone.finish_shrink(chunk, pages));
        }
        assert_eq!((left, zone.held_pages(), zone.free_pages()), (vec![0], 0, 0));
    }

    /// Goal: a migration gets whole chunks first, then those that earlier migrations left, never
    /// one with a page in use.
    #[test]
    fn idle_chunks_leave_with_all_their_pages() {
        let mut zone = zone(2);
        let used = take(&mut zone, 0, 1)[0].0;
        zone.insert_chunk(2, 2, 100, false);
        zone.insert_chunk(3, 3, 0, true);
        assert_eq!(zone.take_idle(|_| false), Some((1 - used, 512)));
        assert_eq!(zone.take_idle(|_| true), Some((2, 100)));
        assert_eq!(zone.take_idle(|_| true), None);
        assert_eq!((zone.free_pages(), zone.held_pages()), (511, 512));
    }

    /// Goal: emptied pages go to a chunk that has some already and room for these, not to one with
    /// a page in use: 100 and 412 are 512.
    #[test]
    fn chunks_fill_up() {
        let mut zone = zone(1);
        take(&mut zone, 0, 1);
        zone.insert_chunk(2, 2, 100, false);
        zone.insert_chunk(3, 3, 200, false);
        assert_eq!(zone.take_roomy(413, |_| true, |_| true), None);
        assert_eq!(zone.take_roomy(1, |_| false, |_| true), None, "of another kind");
        assert_eq!(zone.take_roomy(300, |_| true, |number| number == 3), Some((3, 200)));
        assert_eq!(zone.take_roomy(412, |_| true, |number| number == 3), Some((2, 100)));
        assert_eq!(zone.take_roomy(1, |_| true, |_| true), None);
    }

    /// Goal: pages that were free all the time count as unneeded.
    #[test]
    fn the_least_that_was_free_is_remembered() {
        let mut zone = zone(1);
        assert_eq!(zone.take_least_free(), 0, "it began empty");
        let runs = take(&mut zone, 4, 10);
        runs.into_iter().for_each(|(chunk, page)| zone.put(chunk, page..page + 16));
        assert_eq!(zone.take_least_free(), 512 - 160);
        assert_eq!(zone.take_least_free(), 512);
    }

    #[derive(Clone, Debug)]
    enum ZoneStep {
        Take { order: u32, most: usize },
        Put(prop::sample::Index),
        Grow { order: u32, better: u32 },
        Shrink(usize),
        Adopt(usize),
        TakeIdle,
    }

    fn step() -> impl Strategy<Value = ZoneStep> {
        let order = 0..=ORDER_MAX;
        prop_oneof![
            4 => (order.clone(), 1..80_usize)
                .prop_map(|(order, most)| ZoneStep::Take { order, most }),
            6 => any::<prop::sample::Index>().prop_map(ZoneStep::Put),
            1 => (order.clone(), order)
                .prop_map(|(order, better)| ZoneStep::Grow { order, better }),
            1 => (1..700_usize).prop_map(ZoneStep::Shrink),
            1 => (0..=CHUNK_PAGES).prop_map(ZoneStep::Adopt),
            1 => Just(ZoneStep::TakeIdle),
        ]
    }

    proptest! {
        /// Goal: after any steps, every page in memory is free or has exactly one owner, and runs
        /// are aligned.
        #[test]
        fn no_page_has_two_owners(steps in proptest::collection::vec(step(), 1..120)) {
            let mut zone = zone(1);
            let free = |pages: &Range<usize>, owned: &BTreeSet<(ChunkNo, usize)>, chunk| {
                pages.clone().all(|page| !owned.contains(&(chunk, page)))
            };
            let mut owned: Vec<(ChunkNo, Range<usize>)> = Vec::new();
            let mut pages_of: BTreeSet<(ChunkNo, usize)> = BTreeSet::new();
            let mut next = 1;
            for step in steps {
                match step {
                    ZoneStep::Take { order, most } => {
                        for (chunk, start) in take(&mut zone, order, most) {
                            prop_assert!(start.is_multiple_of(1 << order));
                            let run = start..start + (1 << order);
                            prop_assert!(run.clone().all(|page| pages_of.insert((chunk, page))));
                            owned.push((chunk, run));
                        }
                    }
                    ZoneStep::Put(which) if !owned.is_empty() => {
                        let (chunk, run) = owned.swap_remove(which.index(owned.len()));
                        run.clone().for_each(|page| _ = pages_of.remove(&(chunk, page)));
                        zone.put(chunk, run);
                    }
                    ZoneStep::Grow { order, better } => {
                        if let Some((chunk, pages)) = zone.begin_growth(order, better) {
                            prop_assert!(pages.len() >= 1 << order);
                            prop_assert!(free(&pages, &pages_of, chunk));
                            zone.finish_growth(chunk, pages);
                        }
                    }
                    ZoneStep::Shrink(most) => {
                        if let Some((chunk, pages)) = zone.begin_shrink(most) {
                            prop_assert!(pages.len() <= most && !pages.is_empty());
                            prop_assert!(free(&pages, &pages_of, chunk));
                            zone.finish_shrink(chunk, pages);
                        }
                    }
                    ZoneStep::Adopt(pages) => {
                        zone.insert_chunk(next, next, pages, pages % 2 == 0);
                        next += 1;
                    }
                    ZoneStep::TakeIdle => {
                        if let Some((chunk, _)) = zone.take_idle(|_| true) {
                            prop_assert!(!owned.iter().any(|(owner, _)| *owner == chunk));
                        }
                    }
                    ZoneStep::Put(_) => {}
                }
                prop_assert_eq!(zone.held_pages() - zone.free_pages(), pages_of.len());
                prop_assert_eq!(zone.has(0), zone.free_pages() > 0);
            }
        }
    }
}
