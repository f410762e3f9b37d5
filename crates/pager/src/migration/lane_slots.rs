//! The destination pages of a lane, and its slots for emptied pages.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use nodeward_linux::mempolicy;
use nodeward_model::{NodeId, SkipReason};
use nodeward_policy::move_method::{AvailableMethods, MethodCosts, MoveMethod};

use super::batch_runner::elapsed_ns;
use super::options::Supply;
use super::report::MigrationReport;
use super::uffd_ops::ChunkMove;
use super::verify_node;
use crate::chunk::{CHUNK_BYTES, PageSize};
use crate::context::PagerContext;
use crate::pool::ShadowSlot;
use crate::sys::Advice;

/// The destination of the copies of a batch.
pub enum BatchTarget {
    /// The pages of [`LaneSlots::destination`], from this folio on.
    InSlot(usize),
    /// Fresh pages that the kernel allocates and fills when they are mapped.
    Fresh,
}

impl BatchTarget {
    /// Returns the transfer method of a batch with this destination.
    pub fn way(&self) -> MoveMethod {
        match self {
            Self::InSlot(_) => MoveMethod::Recycled,
            Self::Fresh => MoveMethod::Fresh,
        }
    }
}

/// Smallest batch for move_pages(2): each call makes the kernel empty the page lists of all CPUs.
const KERNEL_PAGES_MIN: usize = 64;

/// The slots that a lane holds.
pub struct LaneSlots {
    context: Arc<PagerContext>,
    pub lane: usize,
    /// A slot that fills with emptied pages, their size, and the node they are on.
    pub emptied: Option<(PageSize, Option<NodeId>, ShadowSlot)>,
    /// A slot with destination pages, their size, and the node they are on.
    pub destination: Option<(PageSize, NodeId, ShadowSlot)>,
    /// Measured costs of base pages by transfer method.
    pub costs: MethodCosts,
}

/// A slot with pages, their size, and the node that they are on, if known.
pub type NodeSlot = (PageSize, Option<NodeId>, ShadowSlot);

thread_local! {
    /// The node that this thread's new pages come from.
    static PREFERRED_NODE: Cell<Option<NodeId>> = const { Cell::new(None) };
}

impl LaneSlots {
    /// A stock without slots.
    pub fn new(context: Arc<PagerContext>, lane: usize) -> Self {
        let costs = MethodCosts::default();
        Self { context, lane, emptied: None, destination: None, costs }
    }

    /// Gives all slots back, at the end of a job.
    pub fn return_all(&mut self) {
        if let Some((size, node, shadow)) = self.emptied.take() {
            self.context.shadow_slots(size).return_slot(shadow, node);
        }
        if let Some((size, node, shadow)) = self.destination.take() {
            self.context.shadow_slots(size).return_slot(shadow, Some(node));
        }
    }

    /// Chooses the transfer method of a batch of `pages` base pages.
    pub fn way(&self, chunk_move: &ChunkMove<'_>, pages: usize) -> MoveMethod {
        match chunk_move.supply {
            Supply::OneWay => MoveMethod::Fresh,
            Supply::Any if chunk_move.size == PageSize::Base => self.cheapest(chunk_move, pages),
            Supply::Any | Supply::Recycled => MoveMethod::Recycled,
        }
    }

    fn cheapest(&self, chunk_move: &ChunkMove<'_>, pages: usize) -> MoveMethod {
        let ready = self.destination.as_ref().is_some_and(|ready| fits_move(ready, chunk_move));
        let kept = ready || self.context.shadow_slots(chunk_move.size).has_recycled(chunk_move.to);
        let kernel = chunk_move.may_use_kernel && pages >= KERNEL_PAGES_MIN;
        let way = self.costs.choose(AvailableMethods { recycled: kept, kernel });
        // The kernel would make room on a full node by reclaiming other pages.
        match way == MoveMethod::Kernel
            && self.context.reserve_headroom(chunk_move.to, pages).is_err()
        {
            true => self.costs.choose(AvailableMethods { recycled: kept, kernel: false }),
            false => way,
        }
    }

    /// Finds destination pages for at most `most` folios. Returns them, and the number of folios
    /// that they are enough for.
    pub fn prepare_target(
        &mut self,
        chunk_move: &ChunkMove<'_>,
        way: MoveMethod,
        most: usize,
        report: &mut MigrationReport,
    ) -> Result<(BatchTarget, usize), SkipReason> {
        let began = Instant::now();
        let found = self.find_target(chunk_move, way, most);
        report.step_times.supply_ns += elapsed_ns(began);
        found
    }

    fn find_target(
        &mut self,
        chunk_move: &ChunkMove<'_>,
        way: MoveMethod,
        most: usize,
    ) -> Result<(BatchTarget, usize), SkipReason> {
        let folio_pages = self.context.folio_pages(chunk_move.size);
        if self.ensure_destination(chunk_move, way)? {
            let (_, _, ready) = self.destination.as_ref().expect("just stocked up");
            let folios = ready.pages / folio_pages;
            let most = most.min(folios);
            return Ok((BatchTarget::InSlot(folios - most), most));
        }
        self.context.reserve_headroom(chunk_move.to, most * folio_pages)?;
        prefer_node(&self.context, chunk_move.to)?;
        Ok((BatchTarget::Fresh, most))
    }

    /// Makes sure that `ready` has pages of the right kind. Returns `false` if fresh base pages are
    /// to be used instead.
    fn ensure_destination(
        &mut self,
        chunk_move: &ChunkMove<'_>,
        way: MoveMethod,
    ) -> Result<bool, SkipReason> {
        if (chunk_move.size, way) == (PageSize::Base, MoveMethod::Fresh) {
            return Ok(false);
        }
        if way != MoveMethod::Fresh
            && self.destination.as_ref().is_some_and(|ready| fits_move(ready, chunk_move))
        {
            return Ok(true);
        }
        if let Some((size, node, shadow)) = self.destination.take() {
            self.context.shadow_slots(size).return_slot(shadow, Some(node));
        }
        let kept = match way {
            MoveMethod::Fresh => None,
            MoveMethod::Recycled | MoveMethod::Kernel => {
                self.take_recycled(chunk_move.size, chunk_move.to)
            }
        };
        let found = match (kept, chunk_move.supply, chunk_move.size) {
            (Some(kept), _, _) => kept,
            (None, Supply::Recycled, _) => return Err(SkipReason::NoMemory),
            (None, _, PageSize::Base) => return Ok(false),
            (None, _, PageSize::Huge) => self.fresh_huge_page(Some(chunk_move.to))?,
        };
        self.destination = Some((chunk_move.size, chunk_move.to, found));
        Ok(true)
    }

    /// Returns a slot with pages that are kept on a node. A slot whose pages are no longer there,
    /// because another program moved them or the kernel merged them, is freed.
    pub fn take_recycled(&self, size: PageSize, node: NodeId) -> Option<ShadowSlot> {
        let shadows = self.context.shadow_slots(size);
        loop {
            let kept = shadows.take_recycled(self.lane, node)?;
            let fits = size == PageSize::Base || self.is_huge_page(&kept);
            if fits && verify_node::are_all_on_node(&self.context, &kept, node) {
                return Some(kept);
            }
            shadows.return_slot(kept, None);
        }
    }

    /// Returns whether a kept chunk is still one huge page: the program may have used parts of it.
    fn is_huge_page(&self, kept: &ShadowSlot) -> bool {
        kept.pages == self.context.chunk_pages() && self.context.is_huge_page(kept.slot.address(0))
    }

    /// Returns a huge page of zeros that is fresh from the kernel.
    pub fn fresh_huge_page(&self, node: Option<NodeId>) -> Result<ShadowSlot, SkipReason> {
        if let Some(node) = node {
            self.context.reserve_headroom(node, self.context.chunk_pages())?;
            prefer_node(&self.context, node)?;
        }
        let shadows = self.context.shadow_slots(PageSize::Huge);
        let mut shadow = shadows.take_unregistered().map_err(|_| SkipReason::NoMemory)?;
        let whole = 0..CHUNK_BYTES;
        let populated = shadow.slot.advise(whole, Advice::Populate).is_ok();
        let address = shadow.slot.address(0);
        let astray = node.is_some_and(|node| {
            !self.context.has_one_node()
                && verify_node::is_on_other_node(&self.context, address, node)
        });
        if populated && !astray && self.context.is_huge_page(address) {
            shadow.pages = self.context.chunk_pages();
            return Ok(shadow);
        }
        shadow.clear();
        shadows.return_slot(shadow, None);
        Err(if populated && !astray { SkipReason::NoHugePage } else { SkipReason::NoMemory })
    }

    /// Makes sure that `emptied` can take `folios` folios from the trip's node. Returns the index
    /// of the first one in the slot.
    pub fn ensure_empty_slot(
        &mut self,
        chunk_move: &ChunkMove<'_>,
        folios: usize,
    ) -> Option<usize> {
        let folio_pages = self.context.folio_pages(chunk_move.size);
        let needed = folios * folio_pages;
        let chunk_pages = self.context.chunk_pages();
        let fits = |emptied: &(PageSize, Option<NodeId>, ShadowSlot)| {
            (emptied.0, emptied.1) == (chunk_move.size, chunk_move.from)
                && emptied.2.pages + needed <= chunk_pages
                && !emptied.2.slot.is_lost()
        };
        if !self.emptied.as_ref().is_some_and(fits) {
            if let Some((size, node, shadow)) = self.emptied.take() {
                self.context.shadow_slots(size).return_slot(shadow, node);
            }
            let empty = self.context.shadow_slots(chunk_move.size).take_empty(self.lane).ok()?;
            self.emptied = Some((chunk_move.size, chunk_move.from, empty));
        }
        self.emptied.as_ref().map(|(_, _, shadow)| shadow.pages / folio_pages)
    }

    /// Takes back the slot with emptied pages. A full slot goes to the pool at once, because its
    /// pages are in the caches now: if kept, the next batch copies to them; if freed, the kernel
    /// hands them out again.
    pub fn stow_emptied(&mut self, size: PageSize, node: Option<NodeId>, emptied: ShadowSlot) {
        match emptied.pages == self.context.chunk_pages() {
            true => self.context.shadow_slots(size).return_slot(emptied, node),
            false => self.emptied = Some((size, node, emptied)),
        }
    }

    /// Records what a batch took from the slot with destination pages. If the slot now has a gap,
    /// everything from there on is freed: its pages would have to be counted one by one.
    pub fn consume_destination(
        &mut self,
        destination: &BatchTarget,
        clean: bool,
        folio_pages: usize,
    ) {
        if let (BatchTarget::InSlot(first), Some((_, _, ready))) =
            (destination, &mut self.destination)
        {
            match clean {
                true => ready.pages = first * folio_pages,
                false => ready.truncate(first * folio_pages, self.context.page_bytes),
            }
        }
    }
}

/// Makes this thread's new pages come from a node. Allocates nothing.
pub fn prefer_node(context: &PagerContext, node: NodeId) -> Result<(), SkipReason> {
    if context.has_one_node() || PREFERRED_NODE.get() == Some(node) {
        return Ok(());
    }
    mempolicy::prefer_memory(node).map_err(|_| SkipReason::NotAllowed)?;
    PREFERRED_NODE.set(Some(node));
    Ok(())
}

/// Returns whether destination pages are of the right size and on the right node.
pub fn fits_move(ready: &(PageSize, NodeId, ShadowSlot), chunk_move: &ChunkMove<'_>) -> bool {
    (ready.0, ready.1) == (chunk_move.size, chunk_move.to) && ready.2.pages > 0
}
