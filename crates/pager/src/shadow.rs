//! Where pages lie that are out of sight, and the pages that earlier migrations left behind.
//!
//! Shadow slots are chunks of the page pool. An empty one takes pages that are unmapped; once they
//! are copied, it is full of pages that nobody needs, on the node that they were moved from: the
//! pool keeps them, and they are the destinations of the next migration to that node, at no cost
//! but copying. Those that were used last are used first, because they are in the caches.

use std::sync::Arc;

use nodeward_model::NodeId;

use crate::error::Result;
use crate::pool::{Kind, Origin, Pool};
use crate::sys::{Passage, Slot};
use crate::{CHUNK_BYTES, PageSize};

/// A slot and how many pages lie in it, from its start on without a gap.
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
    /// Slots of a pool.
    pub fn new(pool: &Arc<Pool>, passage: Passage, size: PageSize) -> Self {
        Self { pool: Arc::clone(pool), size, passage }
    }

    /// An empty slot for a lane.
    pub fn empty(&self, lane: usize) -> Result<Shadow> {
        match self.passage {
            Passage::Remap => self.unwatched(), // what is put there by mremap is never watched
            Passage::Move => self.empty_of(Origin::Regions, lane),
        }
    }

    /// An empty slot that is not watched. Pages that are fresh from the kernel come in such,
    /// because nobody would serve the fault in others.
    pub fn unwatched(&self) -> Result<Shadow> {
        self.empty_of(Origin::Node(None), 0)
    }

    fn empty_of(&self, origin: Origin, lane: usize) -> Result<Shadow> {
        let kind = Kind { size: self.size, origin };
        let (_, slot) = self.pool.arena.take_empty(kind, lane)?;
        Ok(Shadow { slot, pages: 0, kind })
    }

    /// A slot with pages that are kept on a node, if there is one.
    pub fn kept(&self, lane: usize, node: NodeId) -> Option<Shadow> {
        let (shell, pages) = self.pool.take_chunk(node, self.size, lane)?;
        Some(Shadow { slot: shell.slot, pages, kind: shell.kind })
    }

    /// Whether pages are kept on a node.
    pub fn has_kept(&self, node: NodeId) -> bool {
        self.pool.has_chunk(node, self.size)
    }

    /// Takes back a slot whose pages, all on `node`, nobody needs. They are kept within the pool's
    /// bound, or freed.
    pub fn give(&self, shadow: Shadow, node: Option<NodeId>) {
        if shadow.slot.is_lost() {
            // With its mapping, which must not be unmapped: there may be something else in it.
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
    /// Whether its pages have just come from the kernel.
    pub fn is_fresh(&self) -> bool {
        self.kind.origin != Origin::Regions
    }

    /// Frees the pages.
    pub fn clear(&mut self) {
        self.keep(0, 0);
    }

    /// Frees all but the first pages.
    pub fn keep(&mut self, pages: usize, page_bytes: usize) {
        let rest = pages * page_bytes..CHUNK_BYTES;
        self.slot.discard(rest).expect("the slot is mapped and not locked");
        self.pages = pages;
    }
}
