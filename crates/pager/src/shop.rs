//! What all threads of a pager share.

use std::sync::Arc;

use nodeward_linux::Linux;
use nodeward_linux::own::PageMap;
use nodeward_machine::{Machine, Process};
use nodeward_model::{NodeId, Nodemask, SkipReason, Topology};

use crate::pool::Pool;
use crate::shadow::Shadows;
use crate::sys::{Passage, Slot, Uffd};
use crate::{CHUNK_BYTES, Copier, PageSize, Result};

/// What lanes and fault handler work with.
pub struct Shop {
    pub uffd: Arc<Uffd>,
    pub passage: Passage,
    /// What copies to pages that are kept.
    pub copier: Arc<dyn Copier>,
    /// What copies to pages that are fresh.
    pub fresh_copier: Arc<dyn Copier>,
    pub machine: Linux,
    pub topology: Topology,
    pub page_bytes: usize,
    pub pages: Arc<PageMap>,
    /// This process, to be asked where pages are.
    pub myself: Arc<dyn Process>,
    /// A slot of zeros.
    pub zeros: Slot,
    base: Shadows,
    huge: Shadows,
    nodes: Nodemask,
    /// Who has the free pages, and knows where fresh ones may be taken from.
    pool: Arc<Pool>,
}

/// What a shop is made of.
pub struct Tools {
    pub uffd: Arc<Uffd>,
    pub passage: Passage,
    /// What copies to pages that are kept.
    pub copier: Arc<dyn Copier>,
    /// What copies to pages that are fresh.
    pub fresh_copier: Arc<dyn Copier>,
    pub machine: Linux,
    pub topology: Topology,
    pub pages: Arc<PageMap>,
    pub myself: Arc<dyn Process>,
}

impl Shop {
    /// A shop with the free pages of a pool, which the same userfaultfd watches.
    pub fn new(tools: Tools, pool: &Arc<Pool>) -> Result<Self> {
        let page_bytes = tools.machine.page_bytes() as usize;
        tools.uffd.count_by(&tools.pages);
        let shadows = |size| Shadows::new(pool, tools.passage, size);
        let base = shadows(PageSize::Base);
        Ok(Self {
            zeros: base.unwatched()?.slot,
            base,
            huge: shadows(PageSize::Huge),
            nodes: tools.topology.nodes_with_memory(),
            pool: Arc::clone(pool),
            uffd: tools.uffd,
            passage: tools.passage,
            copier: tools.copier,
            fresh_copier: tools.fresh_copier,
            machine: tools.machine,
            topology: tools.topology,
            pages: tools.pages,
            myself: tools.myself,
            page_bytes,
        })
    }

    /// Frees all pages that are kept; returns how many base pages.
    pub fn free_kept(&self) -> usize {
        self.pool.give_back()
    }

    /// The slots for pages of a size.
    pub fn shadows(&self, size: PageSize) -> &Shadows {
        match size {
            PageSize::Base => &self.base,
            PageSize::Huge => &self.huge,
        }
    }

    /// Base pages in a chunk.
    pub fn chunk_pages(&self) -> usize {
        CHUNK_BYTES / self.page_bytes
    }

    /// Base pages in a folio of a migration.
    pub fn folio_pages(&self, size: PageSize) -> usize {
        match size {
            PageSize::Base => 1,
            PageSize::Huge => self.chunk_pages(),
        }
    }

    /// Whether a chunk is one huge page. Where the kernel does not tell, it may be.
    pub fn is_huge_page(&self, start: u64) -> bool {
        self.pages.is_huge_page(start..start + CHUNK_BYTES as u64).unwrap_or(true)
    }

    /// Whether there is only one node that pages can be on.
    pub fn has_one_node(&self) -> bool {
        self.nodes.len() <= 1
    }

    /// The only node, if there is only one.
    pub fn only_node(&self) -> Option<NodeId> {
        self.nodes.first().filter(|_| self.has_one_node())
    }

    /// Makes sure that a node, and our control groups, have room for so many fresh base pages.
    pub fn room_for(&self, node: NodeId, pages: usize) -> std::result::Result<(), SkipReason> {
        let has_room = self.pool.rooms.room_for(node, pages, || _ = self.free_kept());
        if has_room { Ok(()) } else { Err(SkipReason::NoMemory) }
    }

    /// Whether a node has room for so many base pages now.
    pub fn has_room(&self, node: NodeId, pages: u64) -> bool {
        self.pool.rooms.has_room(node, pages)
    }

    /// Lets nobody take from a node what an earlier look granted.
    pub fn look_again(&self, node: NodeId) {
        self.pool.rooms.look_again(node);
    }
}
