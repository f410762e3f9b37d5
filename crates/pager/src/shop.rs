//! What all threads of a pager share.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nodeward_linux::Linux;
use nodeward_linux::cgroup::MemoryGroups;
use nodeward_linux::own::PageMap;
use nodeward_machine::{Machine, Process};
use nodeward_model::{NodeId, Nodemask, SkipReason, Topology};

use crate::shadow::Shadows;
use crate::sync::lock;
use crate::sys::{Passage, Slot, Uffd};
use crate::{CHUNK_BYTES, Copier, PageSize, Result};

/// Base pages that a look at the machine's room is good for: 32 MiB of 4 KiB pages, a few
/// milliseconds of work.
const GRANT_PAGES_MAX: u64 = 8192;
/// What was seen is good for no longer than this, because others allocate as well.
const GRANT_LASTS: Duration = Duration::from_millis(20);
/// A grant is at most this part of the room, for the same reason.
const SHARE_OF_ROOM: u64 = 4;

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
    pub pages: PageMap,
    /// This process, to be asked where pages are.
    pub myself: Arc<dyn Process>,
    /// A slot of zeros.
    pub zeros: Slot,
    base: Shadows,
    huge: Shadows,
    nodes: Nodemask,
    /// `None` where they cannot be seen.
    groups: Option<MemoryGroups>,
    /// Fresh pages that may be taken from each node before the next look.
    granted: Mutex<BTreeMap<NodeId, Grant>>,
}

/// What a look at the machine's room was good for.
struct Grant {
    /// When that was.
    seen: Instant,
    /// Base pages of it that were not taken yet.
    left: u64,
}

/// What a shop is made of.
pub struct Tools {
    pub uffd: Uffd,
    pub passage: Passage,
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
        let shadows = |size| Shadows::new(Arc::clone(&uffd), tools.passage, size, kept_pages);
        let base = shadows(PageSize::Base);
        Ok(Self {
            zeros: base.unwatched()?.slot,
            base,
            huge: shadows(PageSize::Huge),
            nodes: tools.topology.nodes_with_memory(),
            groups: MemoryGroups::find(Path::new("/")).ok(),
            uffd,
            passage: tools.passage,
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

    /// Makes sure that a node, and our control groups, have room for so many fresh base pages. The
    /// kernel would rather take them from another node, or end a process, than refuse.
    pub fn room_for(&self, node: NodeId, pages: usize) -> std::result::Result<(), SkipReason> {
        let pages = pages as u64;
        let mut granted = lock(&self.granted);
        let holds = |grant: &Grant| grant.left >= pages && grant.seen.elapsed() < GRANT_LASTS;
        let mut grant = match granted.remove(&node).filter(holds) {
            Some(grant) => grant,
            None => self.grant(node, pages).ok_or(SkipReason::NoMemory)?,
        };
        grant.left -= pages;
        granted.insert(node, grant);
        Ok(())
    }

    /// Whether a node has room for so many base pages now.
    pub fn has_room(&self, node: NodeId, pages: u64) -> bool {
        self.room(node) >= pages
    }

    /// Lets nobody take from a node what an earlier look granted.
    pub fn look_again(&self, node: NodeId) {
        lock(&self.granted).remove(&node);
    }

    fn grant(&self, node: NodeId, pages: u64) -> Option<Grant> {
        let share = || self.room(node) / SHARE_OF_ROOM;
        let enough = |share: &u64| *share >= pages;
        let share = Some(share()).filter(enough).or_else(|| {
            self.free_kept();
            Some(share()).filter(enough)
        })?;
        Some(Grant { seen: Instant::now(), left: share.min(GRANT_PAGES_MAX) })
    }

    /// Base pages that a node can take, as far as our control groups allow them.
    fn room(&self, node: NodeId) -> u64 {
        let rooms = self.machine.rooms().unwrap_or_default();
        let on_node = rooms.get(&node).map_or(u64::MAX, |room| room.free_pages);
        let allowed = self.groups.as_ref().and_then(|groups| {
            let headroom = groups.headroom_bytes();
            headroom.inspect_err(|error| tracing::warn!(%error, "limit unknown")).ok()?
        });
        on_node.min(allowed.map_or(u64::MAX, |bytes| bytes / self.page_bytes as u64))
    }
}
