//! The part of a region that its handle, the lanes, the fault handler and fork share.

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

/// Per-chunk state.
#[derive(Default)]
pub struct Note {
    /// The node that all its pages are on, if the pager put them there.
    pub node: Option<NodeId>,
    /// Pages that a lazy migration left out of sight.
    pub left_out: Option<LeftOut>,
}

/// Pages that are out of sight until a thread touches them.
pub struct LeftOut {
    /// The pages that are still out, and their slot.
    pub out: Out,
    /// Their page size.
    pub size: PageSize,
    /// Number of pages that have been moved on to their destination.
    pub emptied: usize,
    /// The node that they were on, if all were on one node.
    pub from: Option<NodeId>,
    /// Move them even if the touching thread runs on that node.
    pub even_if_there: bool,
}

impl LeftOut {
    /// Returns the slot, once none of its pages is out of sight any more. `full` says that all of
    /// its pages are emptied ones.
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
    /// Set while the kernel moves the region's pages.
    pub by_kernel: AtomicBool,
    /// Base pages that must not be taken out, as of the start of the last job.
    pub stays: Mutex<Vec<Range<usize>>>,
}

impl Core {
    /// A region of base pages with default options.
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

    /// Returns the byte range of a chunk in the region.
    pub fn chunk(&self, chunk: usize) -> Range<usize> {
        chunk * CHUNK_BYTES..(chunk + 1) * CHUNK_BYTES
    }

    /// Returns the addresses of a chunk.
    pub fn addresses(&self, chunk: usize) -> nodeward_model::Range {
        let start = self.mapping.start() + self.chunk(chunk).start as u64;
        nodeward_model::Range::new(start, start + CHUNK_BYTES as u64)
    }

    /// Wakes all threads that wait for a chunk.
    pub fn wake(&self, chunk: usize) {
        let range = self.addresses(chunk);
        // Fails only where the program unmapped the memory; then no thread waits there.
        self.shop.uffd.wake(range.start, range.bytes()).ok();
    }

    /// Releases a claim and wakes the threads that wait for the chunk.
    pub fn release(&self, claim: Claim<Note>) {
        let chunk = claim.chunk;
        if self.desk.release(claim) {
            self.wake(chunk);
        }
    }

    /// Gives back the slot that pages were left out in. `full`: all of its pages are emptied ones.
    pub fn give(&self, left: LeftOut, full: bool) {
        let (size, node, shadow) = left.into_slot(full);
        self.shop.shadows(size).give(shadow, node);
    }

    /// Registers the whole region with userfaultfd. A part that the program has mapped something
    /// else over is not registered, so pages taken out of it could not come back. Where that cannot
    /// be repaired, as with a file mapping, those pages stay.
    /// # Errors
    /// If no part of the region can be registered.
    pub fn watch(&self) -> Result<()> {
        let stays = watched::parts_that_stay(&self.shop, &self.mapping)?;
        let page_bytes = self.shop.page_bytes;
        let pages = |part: &Range<usize>| part.start / page_bytes..part.end / page_bytes;
        let stays = stays.iter().map(pages).collect();
        let before = std::mem::replace(&mut *lock(&self.stays), stays);
        drop(before); // dropped without the lock
        Ok(())
    }

    /// Returns the pages of a chunk that cannot be taken out.
    pub fn unmovable(&self, chunk: usize) -> PageBits {
        let mut bits = PageBits::default();
        lock(&self.stays).iter().for_each(|range| self.insert_part(&mut bits, chunk, range));
        bits
    }

    /// Returns the pages of a chunk that are pinned where they are.
    pub fn pinned(&self, chunk: usize) -> PageBits {
        let pages = self.shop.chunk_pages();
        let mut bits = PageBits::default();
        let pages = chunk * pages..(chunk + 1) * pages;
        self.desk.pinned(&pages, |part| self.insert_part(&mut bits, chunk, &part));
        bits
    }

    /// Adds those pages of a chunk that are in `range`.
    fn insert_part(&self, bits: &mut PageBits, chunk: usize, range: &Range<usize>) {
        let pages = self.shop.chunk_pages();
        let (first, end) = (chunk * pages, (chunk + 1) * pages);
        let part = range.start.max(first)..range.end.min(end);
        part.for_each(|page| bits.insert(page - first));
    }
}
