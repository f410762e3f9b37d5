//! The state that the lanes and the fault thread of a pager share: userfaultfd, copiers, slots, and
//! what they know of the machine.

use std::sync::{Arc, OnceLock};

use nodeward_linux::Linux;
use nodeward_linux::own_process::OwnPagemap;
use nodeward_machine::{Machine, Process};
use nodeward_model::{NodeId, Nodemask, Range, SkipReason, Topology};

use crate::chunk::{CHUNK_BYTES, PageSize};
use crate::copier::{self, Copier, CopyTarget};
use crate::error::{Result, system};
use crate::pool::{Pool, ShadowSlots};
use crate::sys::{Slot, TransferMethod, Uffd, try_huge_arrival};

/// The shared state of lanes and fault handler.
pub struct PagerContext {
    pub uffd: Arc<Uffd>,
    pub transfer_method: TransferMethod,
    /// The copier for recycled destination pages.
    pub copier: Arc<dyn Copier>,
    /// The copier for destination pages that are fresh.
    pub fresh_copier: Arc<dyn Copier>,
    pub machine: Linux,
    pub page_bytes: usize,
    pub pages: Arc<OwnPagemap>,
    /// This process, to query the place of its pages.
    pub myself: Arc<dyn Process>,
    /// A slot of zeros.
    pub zeros: Slot,
    pub slots: ShadowSlots,
    nodes: Nodemask,
    /// Whether huge pages can arrive in the place of base pages, once that is known.
    huge_arrival: OnceLock<bool>,
    /// The owner of the free pages, which also checks the room for fresh ones.
    pool: Arc<Pool>,
}

impl PagerContext {
    /// The state of a pager that moves pages by userfaultfd. `uffd` is the one that the pool is
    /// registered with. Without `copier`, the fastest copiers of this machine are taken.
    pub fn new(
        uffd: Arc<Uffd>,
        transfer_method: TransferMethod,
        pool: &Arc<Pool>,
        copier: Option<&Arc<dyn Copier>>,
        myself: &Arc<dyn Process>,
    ) -> Result<Self> {
        let machine = Linux::open();
        let pages = Arc::new(OwnPagemap::open().map_err(system("opening /proc/self/pagemap"))?);
        uffd.count_by(&pages);
        let slots = ShadowSlots::new(pool, transfer_method);
        let copier_for = |target| copier.cloned().unwrap_or_else(|| copier::fastest(target));
        Ok(Self {
            copier: copier_for(CopyTarget::Cold),
            fresh_copier: copier_for(CopyTarget::JustZeroed),
            page_bytes: machine.page_bytes() as usize,
            zeros: slots.take_unregistered(PageSize::Base)?.slot,
            nodes: pool.topology.nodes_with_memory(),
            huge_arrival: OnceLock::new(),
            pool: Arc::clone(pool),
            myself: Arc::clone(myself),
            uffd,
            transfer_method,
            machine,
            pages,
            slots,
        })
    }

    /// Returns the nodes and CPUs of the machine.
    pub fn topology(&self) -> &Topology {
        &self.pool.topology
    }

    /// Frees all recycled pages; returns the number of base pages.
    pub fn free_recycled(&self) -> usize {
        self.pool.give_back()
    }

    /// Returns the number of base pages in a chunk.
    pub fn chunk_pages(&self) -> usize {
        CHUNK_BYTES / self.page_bytes
    }

    /// Returns the number of base pages in a folio of a migration.
    pub fn folio_pages(&self, size: PageSize) -> usize {
        match size {
            PageSize::Base => 1,
            PageSize::Huge => self.chunk_pages(),
        }
    }

    /// Returns whether a chunk is one huge page; true if the kernel does not tell.
    pub fn is_huge_page(&self, start: u64) -> bool {
        self.pages.is_huge_page(start..start + CHUNK_BYTES as u64).unwrap_or(true)
    }

    /// Returns whether a huge page can arrive in the place of base pages. Finds out at the first
    /// call; if there is no huge page to try it with, at a later one.
    pub fn can_arrive_huge(&self) -> bool {
        if !self.transfer_method.can_map_slot_pages() {
            return false;
        }
        let is_huge = |start| self.pages.is_huge_page(start..start + CHUNK_BYTES as u64);
        let try_it = || try_huge_arrival(&self.uffd, |start| is_huge(start).unwrap_or(false));
        let known = self.huge_arrival.get().copied().or_else(try_it);
        known.is_some_and(|can| *self.huge_arrival.get_or_init(|| can))
    }

    /// Returns whether there is only one node that pages can be on.
    pub fn has_one_node(&self) -> bool {
        self.nodes.len() <= 1
    }

    /// Returns the only node, if there is just one.
    pub fn only_node(&self) -> Option<NodeId> {
        self.nodes.first().filter(|_| self.has_one_node())
    }

    /// Checks that a node, and our control groups, have room for `pages` fresh base pages.
    pub fn reserve_headroom(
        &self,
        node: NodeId,
        pages: usize,
    ) -> std::result::Result<(), SkipReason> {
        let has_room = self.pool.headroom.reserve(node, pages, || _ = self.free_recycled());
        if has_room { Ok(()) } else { Err(SkipReason::NoMemory) }
    }

    /// As [`Self::reserve_headroom`], for a few pages: reads no file. `false` if it is not known
    /// whether there is room.
    pub fn reserve_few(&self, node: NodeId, pages: usize) -> bool {
        self.pool.headroom.reserve_few(node, pages)
    }

    /// Returns whether some call needs a look at the room on nodes, which another thread makes by
    /// [`Self::look_at_headroom`].
    pub fn takes_wanted_look(&self) -> bool {
        self.pool.headroom.takes_wanted_look()
    }

    /// Looks at the room on nodes.
    pub fn look_at_headroom(&self) {
        self.pool.headroom.look_again();
    }

    /// Reads what calls need first, so that none of them has to: the room on nodes, and which
    /// frames are on which node.
    pub fn prepare_for_calls(&self) {
        self.look_at_headroom();
        let start = self.zeros.address(0);
        let page = Range::new(start, start + self.page_bytes as u64);
        // What cannot be read now is read by the call that needs it.
        self.myself.locations(page, &mut Vec::new()).ok();
    }

    /// Returns whether a node has room for this many base pages now.
    pub fn has_room(&self, node: NodeId, pages: u64) -> bool {
        self.pool.headroom.has_room(node, pages)
    }

    /// Revokes what an earlier check of a node granted.
    pub fn invalidate_headroom(&self, node: NodeId) {
        self.pool.headroom.invalidate(node);
    }
}
