//! Shadow slots: the place of pages that are out of sight, and of pages that migrations emptied.
//!
//! Shadow slots are chunks of the page pool. Pages are moved into an empty slot when they are taken
//! out of sight. Once they are copied, the slot is full of pages without use, on the node that they
//! were moved from. The pool keeps them as destinations of the next migration to that node, which
//! then costs nothing but the copy. The most recently used ones are used first, because they are in
//! the caches.

use std::sync::Arc;

use nodeward_model::NodeId;

use crate::error::Result;
use crate::pool::{Kind, Origin, Pool};
use crate::sys::{Passage, Slot};
use crate::{CHUNK_BYTES, PageSize};

/// A slot and its number of pages, which start at its beginning without a gap.
#[derive(Debug)]
pub struct Shadow {
    pub slot: Slot,
    pub pages: usize,
    kind: Kind,
}

/// All slots of a pager for pages of one size.
pub struct Shadows {
    pool: Arc<Pool>,
    size: PageSize,
    passage: Passage,
}

impl Shadows {
    /// The slots of a pool.
    pub fn new(pool: &Arc<Pool>, passage: Passage, size: PageSize) -> Self {
        Self { pool: Arc::clone(pool), size, passage }
    }

    /// Returns an empty slot for a lane.
    pub fn empty(&self, lane: usize) -> Result<Shadow> {
        match self.passage {
            Passage::Remap => self.unwatched(), // memory that mremap puts there is never registered
            Passage::Move => self.empty_of(Origin::Regions, lane),
        }
    }

    /// Returns an empty slot that is not registered with userfaultfd. Pages fresh from the kernel
    /// need such a slot, because no thread would serve the fault in another one.
    pub fn unwatched(&self) -> Result<Shadow> {
        self.empty_of(Origin::Node(None), 0)
    }

    fn empty_of(&self, origin: Origin, lane: usize) -> Result<Shadow> {
        let kind = Kind { size: self.size, origin };
        let (_, slot) = self.pool.arena.take_empty(kind, lane)?;
        Ok(Shadow { slot, pages: 0, kind })
    }

    /// Returns a slot with pages that are kept on a node, if there is one.
    pub fn kept(&self, lane: usize, node: NodeId) -> Option<Shadow> {
        let (shell, pages) = self.pool.take_chunk(node, self.size, lane)?;
        Some(Shadow { slot: shell.slot, pages, kind: shell.kind })
    }

    /// Returns whether pages are kept on a node.
    pub fn has_kept(&self, node: NodeId) -> bool {
        self.pool.has_chunk(node, self.size)
    }

    /// Takes back a slot whose pages, all on `node`, have no use. They are kept within the pool's
    /// bound, or freed.
    pub fn give(&self, shadow: Shadow, node: Option<NodeId>) {
        if shadow.slot.is_lost() {
            // The mapping is leaked with it: other memory may be mapped there, so it must not be
            // unmapped.
            return std::mem::forget(shadow);
        }
        let Shadow { slot, pages, kind } = shadow;
        let shell = crate::pool::Shell { slot, kind };
        let not_kept = match node {
            Some(node) if pages > 0 => self.pool.keep_chunk(shell, pages, node),
            _ => Some(shell),
        };
        if let Some(mut shell) = not_kept {
            if pages > 0 {
                shell.slot.discard(0..CHUNK_BYTES).expect("the slot is mapped");
            }
            self.pool.arena.give_empty(kind, shell.slot);
        }
    }
}

impl Shadow {
    /// Returns whether its pages are fresh from the kernel.
    pub fn is_fresh(&self) -> bool {
        self.kind.origin != Origin::Regions
    }

    /// Frees all pages.
    pub fn clear(&mut self) {
        self.keep(0, 0);
    }

    /// Frees all but the first `pages` pages.
    pub fn keep(&mut self, pages: usize, page_bytes: usize) {
        let rest = pages * page_bytes..CHUNK_BYTES;
        self.slot.discard(rest).expect("the slot is mapped and not locked");
        self.pages = pages;
    }
}
