//! What all threads of a pager share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use nodeward_linux::Linux;
use nodeward_linux::own::PageMap;
use nodeward_machine::{Machine, Process};
use nodeward_model::{NodeId, Nodemask, SkipReason, Topology};

use crate::shadow::Shadows;
use crate::sync::lock;
use crate::sys::{Slot, Uffd};
use crate::{CHUNK_BYTES, Copier, PageSize, Result};

/// Base pages that a look at the machine's room is good for: 32 MiB of 4 KiB pages, a few
/// milliseconds of work.
const GRANT_PAGES_MAX: u64 = 8192;
/// A grant is at most this part of the room, because others allocate as well.
const SHARE_OF_ROOM: u64 = 4;

/// What lanes and fault handler work with.
pub struct Shop {
    pub uffd: Arc<Uffd>,
    /// What copies to pages that are kept.
    pub copier: Arc<dyn Copier>,
    /// What copies to pages that are fresh.
    pub fresh_copier: Arc<dyn Copier>,
    pub machine: Linux,
    pub topology: Topology,
    pub page_bytes: usize,
    pub pages: PageMap,
    /// This process, to be asked where pages are.
    pub myself: Arc<dyn Process>,
    /// A slot of zeros.
    pub zeros: Slot,
    base: Shadows,
    huge: Shadows,
    nodes: Nodemask,
    /// Fresh pages that may be taken from each node before the next look.
    granted: Mutex<BTreeMap<NodeId, u64>>,
}

/// What a shop is made of.
pub struct Tools {
    pub uffd: Uffd,
    /// What copies to pages that are kept.
    pub copier: Arc<dyn Copier>,
    /// What copies to pages that are fresh.
    pub fresh_copier: Arc<dyn Copier>,
    pub machine: Linux,
    pub topology: Topology,
    pub pages: PageMap,
    pub myself: Arc<dyn Process>,
}

impl Shop {
    /// A shop whose pools keep so many bytes on each node.
    pub fn new(tools: Tools, pool_bytes: u64) -> Result<Self> {
        let uffd = Arc::new(tools.uffd);
        let page_bytes = tools.machine.page_bytes() as usize;
        let kept_pages = usize::try_from(pool_bytes).unwrap_or(usize::MAX) / page_bytes;
        let shadows = |size| Shadows::new(Arc::clone(&uffd), size, kept_pages);
        let base = shadows(PageSize::Base);
        Ok(Self {
            zeros: base.unwatched()?.slot,
            base,
            huge: shadows(PageSize::Huge),
            nodes: tools.topology.nodes_with_memory(),
            uffd,
            copier: tools.copier,
            fresh_copier: tools.fresh_copier,
            machine: tools.machine,
            topology: tools.topology,
            pages: tools.pages,
            myself: tools.myself,
            page_bytes,
            granted: Mutex::default(),
        })
    }

    /// Frees all pages that are kept; returns how many base pages.
    pub fn free_kept(&self) -> usize {
        self.base.free_kept() + self.huge.free_kept()
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

    /// Makes sure that a node has room for so many fresh base pages. The kernel would rather take
    /// them from another node, or end a process, than refuse.
    pub fn room_for(&self, node: NodeId, pages: usize) -> std::result::Result<(), SkipReason> {
        let pages = pages as u64;
        let mut granted = lock(&self.granted);
        let left = granted.entry(node).or_default();
        if *left < pages {
            *left = self.grant(node, pages).ok_or(SkipReason::NoMemory)?;
        }
        *left -= pages;
        Ok(())
    }

    /// Whether a node has room for so many base pages now.
    pub fn has_room(&self, node: NodeId, pages: u64) -> bool {
        self.room(node) >= pages
    }

    fn grant(&self, node: NodeId, pages: u64) -> Option<u64> {
        let share = || (self.room(node) / SHARE_OF_ROOM).min(GRANT_PAGES_MAX);
        let enough = |share: &u64| *share >= pages;
        Some(share()).filter(enough).or_else(|| {
            self.free_kept();
            Some(share()).filter(enough)
        })
    }

    fn room(&self, node: NodeId) -> u64 {
        let rooms = self.machine.rooms().unwrap_or_default();
        rooms.get(&node).map_or(u64::MAX, |room| room.free_pages)
    }
}
