//! The part of a region that its handle, the lanes, the fault handler and fork share.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::chunk_claims::{ChunkClaims, Claim};
use super::chunk_state::{ChunkState, LazyPages};
use super::options::{Arrive, Placement};
use super::registration;
use crate::chunk::{CHUNK_BYTES, PageSize};
use crate::context::PagerContext;
use crate::error::Result;
use crate::page_bits::PageBits;
use crate::sync::{Mutex, lock};
use crate::sys::AnonMapping;

/// A region without its handle.
pub struct RegionShared {
    pub mapping: AnonMapping,
    pub claims: ChunkClaims<ChunkState>,
    pub size: PageSize,
    pub placement: Placement,
    /// Size of pages that arrive, for migrations that do not say.
    pub arrive: Arrive,
    pub context: Arc<PagerContext>,
    /// Set while the kernel moves the region's pages.
    pub kernel_moves: AtomicBool,
    /// Base pages that must not be taken out, as of the start of the last job.
    pub unmovable_parts: Mutex<Vec<Range<usize>>>,
    /// Whether there are some.
    pub has_unmovable_parts: AtomicBool,
}

impl RegionShared {
    /// A region of base pages with default options.
    pub fn new(context: &Arc<PagerContext>, mapping: AnonMapping) -> Self {
        let chunks = mapping.bytes() / CHUNK_BYTES;
        Self {
            mapping,
            claims: ChunkClaims::new(chunks),
            size: PageSize::Base,
            placement: Placement::Local,
            arrive: Arrive::AsTheyLeave,
            context: Arc::clone(context),
            kernel_moves: AtomicBool::new(false),
            unmovable_parts: Mutex::default(),
            has_unmovable_parts: AtomicBool::new(false),
        }
    }

    /// Returns the byte range of a chunk in the region.
    pub fn chunk_bytes(&self, chunk: usize) -> Range<usize> {
        chunk * CHUNK_BYTES..(chunk + 1) * CHUNK_BYTES
    }

    /// Returns the addresses of a chunk.
    pub fn chunk_addresses(&self, chunk: usize) -> nodeward_model::Range {
        let start = self.mapping.start() + self.chunk_bytes(chunk).start as u64;
        nodeward_model::Range::new(start, start + CHUNK_BYTES as u64)
    }

    /// Wakes all threads that wait for a chunk.
    pub fn wake_waiters(&self, chunk: usize) {
        let range = self.chunk_addresses(chunk);
        // Fails only where the program unmapped the memory; then no thread waits there.
        self.context.uffd.wake(range.start, range.bytes()).ok();
    }

    /// Wakes the threads that wait for the page at an address.
    pub fn wake_page(&self, address: u64) {
        let page_bytes = self.context.page_bytes as u64;
        // Fails only where the program unmapped the memory; then no thread waits there.
        self.context.uffd.wake(address - address % page_bytes, page_bytes).ok();
    }

    /// Releases a claim and wakes the threads that wait for the chunk.
    pub fn release(&self, claim: Claim<ChunkState>) {
        let chunk = claim.chunk;
        if self.claims.release(claim) {
            self.wake_waiters(chunk);
        }
    }

    /// Gives back the slot of pages that were left out, once all of them are back.
    pub fn return_slot(&self, left: LazyPages) {
        self.context.slots.return_slot(left.into_slot(false));
    }

    /// Registers the whole region with userfaultfd. A part that the program has mapped something
    /// else over is not registered, so pages taken out of it could not come back. Where that cannot
    /// be repaired, as with a file mapping, those pages stay.
    /// # Errors
    /// If no part of the region can be registered.
    pub fn register(&self) -> Result<()> {
        let stays = registration::register_and_find_unmovable(&self.context, &self.mapping)?;
        let page_bytes = self.context.page_bytes;
        let pages = |part: &Range<usize>| part.start / page_bytes..part.end / page_bytes;
        let stays: Vec<_> = stays.iter().map(pages).collect();
        self.has_unmovable_parts.store(!stays.is_empty(), Ordering::Relaxed);
        let before = std::mem::replace(&mut *lock(&self.unmovable_parts), stays);
        drop(before); // dropped without the lock
        Ok(())
    }

    /// Registers the part of a chunk that has these pages. Returns whether all of them can come
    /// back once they are taken out, as far as that can be told without a look at all mappings.
    pub fn register_part(&self, chunk: usize, pages: &PageBits) -> bool {
        let Some(hull) = pages.hull() else { return true };
        let page_bytes = self.context.page_bytes as u64;
        let start = self.chunk_addresses(chunk).start + hull.start as u64 * page_bytes;
        self.context.transfer_method.can_map_slot_pages()
            && !self.has_unmovable_parts.load(Ordering::Relaxed)
            && self.context.uffd.register(start, hull.len() as u64 * page_bytes).is_ok()
    }

    /// Returns the pages of a chunk that cannot be taken out.
    pub fn unmovable_pages(&self, chunk: usize) -> PageBits {
        let mut bits = PageBits::default();
        lock(&self.unmovable_parts)
            .iter()
            .for_each(|range| self.insert_part(&mut bits, chunk, range));
        bits
    }

    /// Returns the pages of a chunk that are pinned where they are.
    pub fn pinned_pages(&self, chunk: usize) -> PageBits {
        let pages = self.context.chunk_pages();
        let mut bits = PageBits::default();
        let pages = chunk * pages..(chunk + 1) * pages;
        self.claims.for_each_pinned(&pages, |part| self.insert_part(&mut bits, chunk, &part));
        bits
    }

    /// Adds those pages of a chunk that are in `range`.
    fn insert_part(&self, bits: &mut PageBits, chunk: usize, range: &Range<usize>) {
        let pages = self.context.chunk_pages();
        let (first, end) = (chunk * pages, (chunk + 1) * pages);
        let part = range.start.max(first)..range.end.min(end);
        part.for_each(|page| bits.insert(page - first));
    }
}
