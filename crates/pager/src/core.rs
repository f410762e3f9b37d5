//! The part of a region that its handle, lanes, the fault handler and fork share.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nodeward_model::NodeId;

use crate::carrier::Out;
use crate::desk::{Claim, Desk};
use crate::error::Result;
use crate::page_bits::PageBits;
use crate::shop::Shop;
use crate::stock::Kept;
use crate::sync::{Mutex, lock};
use crate::sys::Mapping;
use crate::{CHUNK_BYTES, PageSize, Placement, watched};

/// What is known of a chunk.
#[derive(Default)]
pub struct Note {
    /// The node that all its pages are on, as far as we put them there.
    pub node: Option<NodeId>,
    /// Pages that a lazy migration left out of sight.
    pub left_out: Option<LeftOut>,
}

/// Pages that are out of sight until somebody touches them.
pub struct LeftOut {
    /// Those that are still out.
    pub out: Out,
    /// What they are.
    pub size: PageSize,
    /// How many have been moved on to their destination.
    pub emptied: usize,
    /// The node that they were on, if they were on one.
    pub from: Option<NodeId>,
    /// Whether they move even if the thread that touches them is on that node.
    pub even_if_there: bool,
}

impl LeftOut {
    /// The slot, once nothing of it is out of sight any more; `full` if it is full of emptied
    /// pages.
    pub fn into_slot(self, full: bool) -> Kept {
        let Out { mut shadow, slots, .. } = self.out;
        match full {
            true => shadow.pages = self.emptied,
            false => shadow.clear(),
        }
        (slots, self.from, shadow)
    }
}

/// A region without its handle.
pub struct Core {
    pub mapping: Mapping,
    pub desk: Desk<Note>,
    pub size: PageSize,
    pub placement: Placement,
    pub shop: Arc<Shop>,
    /// Whether the kernel moves its pages.
    pub by_kernel: AtomicBool,
    /// Base pages that must not be taken out, as of the begin of the last job.
    pub stays: Mutex<Vec<Range<usize>>>,
}

impl Core {
    /// A region of base pages with no wishes.
    pub fn new(shop: &Arc<Shop>, mapping: Mapping) -> Self {
        let chunks = mapping.bytes() / CHUNK_BYTES;
        Self {
            mapping,
            desk: Desk::new(chunks),
            size: PageSize::Base,
            placement: Placement::Local,
            shop: Arc::clone(shop),
            by_kernel: AtomicBool::new(false),
            stays: Mutex::default(),
        }
    }

    /// The bytes of a chunk.
    pub fn chunk(&self, chunk: usize) -> Range<usize> {
        chunk * CHUNK_BYTES..(chunk + 1) * CHUNK_BYTES
    }

    /// The addresses of a chunk.
    pub fn addresses(&self, chunk: usize) -> nodeward_model::Range {
        let start = self.mapping.start() + self.chunk(chunk).start as u64;
        nodeward_model::Range::new(start, start + CHUNK_BYTES as u64)
    }

    /// Wakes whoever waits for a chunk.
    pub fn wake(&self, chunk: usize) {
        let range = self.addresses(chunk);
        // Fails only where the program unmapped the memory, and then nobody waits.
        self.shop.uffd.wake(range.start, range.bytes()).ok();
    }

    /// Gives a chunk back and wakes whoever waits for it.
    pub fn release(&self, claim: Claim<Note>) {
        let chunk = claim.chunk;
        if self.desk.release(claim) {
            self.wake(chunk);
        }
    }

    /// Gives a slot back that pages were left out in; `full` if it is full of emptied pages.
    pub fn give(&self, left: LeftOut, full: bool) {
        let (size, node, shadow) = left.into_slot(full);
        self.shop.shadows(size).give(shadow, node);
    }

    /// Has all of it watched. What the program maps over a part of it is not, and pages that are
    /// taken out from there could not come back: where that cannot be mended, as with a file, they
    /// stay.
    ///
    /// # Errors
    /// If nothing of it can be watched.
    pub fn watch(&self) -> Result<()> {
        let stays = watched::parts_that_stay(&self.shop, &self.mapping)?;
        let page_bytes = self.shop.page_bytes;
        let pages = |part: &Range<usize>| part.start / page_bytes..part.end / page_bytes;
        let stays = stays.iter().map(pages).collect();
        let before = std::mem::replace(&mut *lock(&self.stays), stays);
        drop(before); // without the lock
        Ok(())
    }

    /// Pages of a chunk that cannot be taken out.
    pub fn unmovable(&self, chunk: usize) -> PageBits {
        let mut bits = PageBits::default();
        lock(&self.stays).iter().for_each(|range| self.insert_part(&mut bits, chunk, range));
        bits
    }

    /// Pages of a chunk that must stay where they are.
    pub fn pinned(&self, chunk: usize) -> PageBits {
        let pages = self.shop.chunk_pages();
        let mut bits = PageBits::default();
        let pages = chunk * pages..(chunk + 1) * pages;
        self.desk.pinned(&pages, |part| self.insert_part(&mut bits, chunk, &part));
        bits
    }

    /// Adds those pages of a chunk that are in a range.
    fn insert_part(&self, bits: &mut PageBits, chunk: usize, range: &Range<usize>) {
        let pages = self.shop.chunk_pages();
        let (first, end) = (chunk * pages, (chunk + 1) * pages);
        let part = range.start.max(first)..range.end.min(end);
        part.for_each(|page| bits.insert(page - first));
    }
}
