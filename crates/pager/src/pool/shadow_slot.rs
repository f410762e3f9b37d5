//! Shadow slots: the place of pages that are out of sight, and of pages that migrations emptied.
//!
//! Shadow slots are chunks of the page pool. Pages are moved into an empty slot when they are taken
//! out of sight. Once they are copied, the slot is full of pages without use, on the node that they
//! were moved from. The pool keeps them as destinations of the next migration to that node, which
//! then costs nothing but the copy. The most recently used ones are used first, because they are in
//! the caches.

use std::sync::Arc;

use nodeward_model::NodeId;

use super::arena::{BlockKind, PageOrigin};
use super::pool::{Pool, PoolChunk};
use crate::chunk::{CHUNK_BYTES, PageSize};
use crate::error::Result;
use crate::sys::{Slot, TransferMethod};

/// A slot and its number of pages, which start at its beginning without a gap.
#[derive(Debug)]
pub struct ShadowSlot {
    pub slot: Slot,
    pub pages: usize,
    kind: BlockKind,
}

/// A slot, and the node that all its pages are on, if known.
#[derive(Debug)]
pub struct NodeSlot {
    pub shadow: ShadowSlot,
    pub node: Option<NodeId>,
}

/// All slots of a pager.
pub struct ShadowSlots {
    pool: Arc<Pool>,
    transfer_method: TransferMethod,
}

impl ShadowSlots {
    /// The slots of a pool.
    pub fn new(pool: &Arc<Pool>, transfer_method: TransferMethod) -> Self {
        Self { pool: Arc::clone(pool), transfer_method }
    }

    /// Returns an empty slot for a lane, for pages of this size.
    pub fn take_empty(&self, size: PageSize, lane: usize) -> Result<ShadowSlot> {
        match self.transfer_method {
            // Memory that mremap puts there is never registered.
            TransferMethod::Remap => self.take_unregistered(size),
            TransferMethod::Move => {
                self.take_empty_of(BlockKind { size, origin: PageOrigin::Regions }, lane)
            }
        }
    }

    /// Returns an empty slot that is not registered with userfaultfd. Pages fresh from the kernel
    /// need such a slot, because no thread would serve the fault in another one.
    pub fn take_unregistered(&self, size: PageSize) -> Result<ShadowSlot> {
        self.take_empty_of(BlockKind { size, origin: PageOrigin::Node(None) }, 0)
    }

    fn take_empty_of(&self, kind: BlockKind, lane: usize) -> Result<ShadowSlot> {
        let (_, slot) = self.pool.arena.take_empty(kind, lane)?;
        Ok(ShadowSlot { slot, pages: 0, kind })
    }

    /// Returns a slot with recycled pages on a node, if there is one.
    pub fn take_recycled(&self, size: PageSize, lane: usize, node: NodeId) -> Option<ShadowSlot> {
        let (shell, pages) = self.pool.take_chunk(node, size, lane)?;
        Some(ShadowSlot { slot: shell.slot, pages, kind: shell.kind })
    }

    /// Returns a slot with recycled pages on a node and room for `pages` more, if there is
    /// one: pages that small migrations empty fill slots together.
    pub fn take_roomy(
        &self,
        size: PageSize,
        lane: usize,
        node: NodeId,
        pages: usize,
    ) -> Option<ShadowSlot> {
        let (shell, present) = self.pool.take_roomy_chunk((node, size), pages, lane)?;
        Some(ShadowSlot { slot: shell.slot, pages: present, kind: shell.kind })
    }

    /// Returns whether there are recycled pages on a node.
    pub fn has_recycled(&self, size: PageSize, node: NodeId) -> bool {
        self.pool.has_chunk(node, size)
    }

    /// Takes back a slot whose pages have no use. Those on a known node are recycled within the
    /// pool's bound; others are freed.
    pub fn return_slot(&self, NodeSlot { shadow, node }: NodeSlot) {
        if shadow.slot.is_lost() {
            // The mapping is leaked with it: other memory may be mapped there, so it must not be
            // unmapped.
            return std::mem::forget(shadow);
        }
        let ShadowSlot { slot, pages, kind } = shadow;
        let shell = PoolChunk { slot, kind };
        let not_recycled = match node {
            Some(node) if pages > 0 => self.pool.keep_chunk(shell, pages, node),
            _ => Some(shell),
        };
        if let Some(mut shell) = not_recycled {
            if pages > 0 {
                shell.slot.discard(0..CHUNK_BYTES).expect("the slot is mapped");
            }
            self.pool.arena.give_empty(kind, shell.slot);
        }
    }
}

impl ShadowSlot {
    /// Returns the size of the pages that it is for.
    pub fn size(&self) -> PageSize {
        self.kind.size
    }

    /// Returns whether its pages are fresh from the kernel.
    pub fn is_fresh(&self) -> bool {
        self.kind.origin != PageOrigin::Regions
    }

    /// Frees all pages.
    pub fn clear(&mut self) {
        self.truncate(0, 0);
    }

    /// Frees all but the first `pages` pages.
    pub fn truncate(&mut self, pages: usize, page_bytes: usize) {
        let rest = pages * page_bytes..CHUNK_BYTES;
        self.slot.discard(rest).expect("the slot is mapped and not locked");
        self.pages = pages;
    }
}
