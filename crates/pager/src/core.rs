//! The part of a region that its handle, lanes, the fault handler and fork share.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nodeward_model::NodeId;

use crate::carrier::Out;
use crate::desk::{Claim, Desk};
use crate::page_bits::PageBits;
use crate::shop::Shop;
use crate::sys::Mapping;
use crate::{CHUNK_BYTES, PageSize, Placement};

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

/// A region without its handle.
pub struct Core {
    pub mapping: Mapping,
    pub desk: Desk<Note>,
    pub size: PageSize,
    pub placement: Placement,
    pub shop: Arc<Shop>,
    /// Whether the kernel moves its pages.
    pub by_kernel: AtomicBool,
}

impl Core {
    /// A region of base pages with no wishes.
    pub fn new(shop: &Arc<Shop>, mapping: Mapping) -> Self {
        let chunks = mapping.bytes() / CHUNK_BYTES;
        Self {
            mapping,
            desk: Desk::new((0..chunks).map(|_| Note::default()).collect()),
            size: PageSize::Base,
            placement: Placement::Local,
            shop: Arc::clone(shop),
            by_kernel: AtomicBool::new(false),
        }
    }

    /// The bytes of a chunk.
    pub fn chunk(&self, chunk: usize) -> Range<usize> {
        chunk * CHUNK_BYTES..(chunk + 1) * CHUNK_BYTES
    }

    /// Wakes whoever waits for a chunk.
    pub fn wake(&self, chunk: usize) {
        let start = self.mapping.start() + self.chunk(chunk).start as u64;
        // Fails only where the program unmapped the memory, and then nobody waits.
        self.shop.uffd.wake(start, CHUNK_BYTES as u64).ok();
    }

    /// Gives a chunk back and wakes whoever waits for it.
    pub fn release(&self, claim: Claim<Note>) {
        let chunk = claim.chunk;
        if self.desk.release(claim) {
            self.wake(chunk);
        }
    }

    /// Pages of a chunk that must stay where they are.
    pub fn pinned(&self, chunk: usize) -> PageBits {
        let pages = self.shop.chunk_pages();
        let (first, end) = (chunk * pages, (chunk + 1) * pages);
        let mut bits = PageBits::default();
        for part in self.desk.pinned(&(first..end)) {
            part.for_each(|page| bits.insert(page - first));
        }
        bits
    }
}
