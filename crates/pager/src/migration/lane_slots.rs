//! The destination pages of a lane, and its slots for emptied pages.

use std::cell::Cell;
use std::sync::Arc;

use nodeward_linux::mempolicy;
use nodeward_model::{NodeId, SkipReason};
use nodeward_policy::huge_page_pause::HugePagePause;
use nodeward_policy::move_method::{AvailableMethods, MethodCosts, MoveMethod};

use super::chunk_move::ChunkMove;
use super::options::Supply;
use super::verify_node;
use crate::chunk::PageSize;
use crate::context::PagerContext;
use crate::pool::{NodeSlot, ShadowSlot};
use crate::sys::Advice;

/// The destination of the copies of a batch.
pub enum BatchTarget {
    /// Pages of a slot, from this folio on. The batch holds the slot until
    /// [`LaneSlots::keep_rest`] takes it back.
    InSlot { ready: NodeSlot, first_folio: usize },
    /// A huge page for all base pages of a chunk. If some of them stay, fresh pages take its place.
    HugePage(NodeSlot),
    /// Fresh pages that the kernel allocates and fills when they are mapped.
    Fresh,
}

impl BatchTarget {
    /// Returns whether the pages come fresh from the kernel for this batch.
    pub fn is_fresh(&self) -> bool {
        match self {
            Self::InSlot { .. } => false,
            Self::HugePage(ready) => ready.shadow.is_fresh(),
            Self::Fresh => true,
        }
    }

    /// Returns the method by which a batch with this destination moves pages.
    pub fn method(&self) -> MoveMethod {
        match self {
            Self::InSlot { .. } | Self::HugePage(_) => MoveMethod::Recycled,
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
    /// Room for fresh pages is checked for each batch; otherwise it was, before the work began.
    checks_room: bool,
    /// A slot that fills with emptied pages.
    emptied: Option<NodeSlot>,
    /// A slot with destination pages.
    destination: Option<NodeSlot>,
    /// Measured costs of base pages by transfer method.
    pub costs: MethodCosts,
    huge_page_pause: HugePagePause,
}

thread_local! {
    /// The node that this thread's new pages come from.
    static PREFERRED_NODE: Cell<Option<NodeId>> = const { Cell::new(None) };
}

impl LaneSlots {
    /// A lane without slots.
    pub fn new(context: Arc<PagerContext>, lane: usize) -> Self {
        Self {
            context,
            lane,
            checks_room: true,
            emptied: None,
            destination: None,
            costs: MethodCosts::default(),
            huge_page_pause: HugePagePause::default(),
        }
    }

    /// As [`Self::new`], for batches for whose fresh pages there is room for certain.
    pub fn with_room(context: Arc<PagerContext>, lane: usize) -> Self {
        Self { checks_room: false, ..Self::new(context, lane) }
    }

    /// Gives all slots back, at the end of a job.
    pub fn return_all(&mut self) {
        let held = [self.emptied.take(), self.destination.take()];
        held.into_iter().flatten().for_each(|slot| self.context.slots.return_slot(slot));
    }

    /// Chooses the method of a batch of `pages` base pages.
    pub fn choose_method(
        &self,
        chunk_move: &ChunkMove<'_>,
        supply: Supply,
        pages: usize,
    ) -> MoveMethod {
        match supply {
            Supply::OneWay => MoveMethod::Fresh,
            Supply::Any if chunk_move.size == PageSize::Base => self.cheapest(chunk_move, pages),
            Supply::Any | Supply::Recycled => MoveMethod::Recycled,
        }
    }

    fn cheapest(&self, chunk_move: &ChunkMove<'_>, pages: usize) -> MoveMethod {
        let recycled = self.has_destination(chunk_move)
            || self.context.slots.has_recycled(chunk_move.size, chunk_move.to);
        let kernel = chunk_move.may_use_kernel && self.checks_room && pages >= KERNEL_PAGES_MIN;
        let method = self.costs.choose(AvailableMethods { recycled, kernel });
        // The kernel would make room on a full node by reclaiming other pages.
        match method == MoveMethod::Kernel
            && self.context.reserve_headroom(chunk_move.to, pages).is_err()
        {
            true => self.costs.choose(AvailableMethods { recycled, kernel: false }),
            false => method,
        }
    }

    /// Finds destination pages for at most `most` folios. Returns them, and the number of folios
    /// that they are enough for.
    pub fn find_target(
        &mut self,
        chunk_move: &ChunkMove<'_>,
        supply: Supply,
        method: MoveMethod,
        most: usize,
    ) -> Result<(BatchTarget, usize), SkipReason> {
        if let Some(ready) = self.find_slot(chunk_move, supply, method)? {
            return Ok(self.target_in(ready, most));
        }
        if self.checks_room {
            let pages = most * self.folio_pages(chunk_move.size);
            self.context.reserve_headroom(chunk_move.to, pages)?;
        }
        prefer_node(&self.context, chunk_move.to)?;
        Ok((BatchTarget::Fresh, most))
    }

    /// Returns the last pages of a slot as the destination of at most `most` folios, and the number
    /// of folios that they are enough for.
    pub fn target_in(&self, ready: NodeSlot, most: usize) -> (BatchTarget, usize) {
        let folios = ready.shadow.pages / self.folio_pages(ready.shadow.size());
        let most = most.min(folios);
        (BatchTarget::InSlot { ready, first_folio: folios - most }, most)
    }

    /// Finds a huge page for all base pages of a chunk; a recycled one, if they need not be fresh.
    pub fn huge_target(
        &mut self,
        chunk_move: &ChunkMove<'_>,
        supply: Supply,
    ) -> Option<BatchTarget> {
        if !self.huge_page_pause.may_try() {
            return None;
        }
        let huge = ChunkMove { size: PageSize::Huge, ..*chunk_move };
        let method = self.choose_method(&huge, supply, 1);
        let found = self.find_slot(&huge, supply, method).ok().flatten();
        self.huge_page_pause.record(found.is_some());
        let ready = found?;
        if prefer_node(&self.context, chunk_move.to).is_err() {
            self.destination = Some(ready);
            return None;
        }
        Some(BatchTarget::HugePage(ready))
    }

    /// Returns a slot with pages of the right kind, or `None` if fresh base pages are to be used
    /// instead.
    fn find_slot(
        &mut self,
        chunk_move: &ChunkMove<'_>,
        supply: Supply,
        method: MoveMethod,
    ) -> Result<Option<NodeSlot>, SkipReason> {
        let (size, to) = (chunk_move.size, chunk_move.to);
        if (size, method) == (PageSize::Base, MoveMethod::Fresh) {
            return Ok(None);
        }
        if method != MoveMethod::Fresh && self.has_destination(chunk_move) {
            return Ok(self.destination.take());
        }
        self.destination.take().into_iter().for_each(|slot| self.context.slots.return_slot(slot));
        let recycled = match method {
            MoveMethod::Fresh => None,
            MoveMethod::Recycled | MoveMethod::Kernel => self.take_recycled(size, to),
        };
        let shadow = match (recycled, supply, size) {
            (Some(recycled), _, _) => recycled,
            (None, Supply::Recycled, _) => return Err(SkipReason::NoMemory),
            (None, _, PageSize::Base) => return Ok(None),
            (None, _, PageSize::Huge) => self.fresh_huge_page(Some(to))?,
        };
        Ok(Some(NodeSlot { shadow, node: Some(to) }))
    }

    /// Returns whether the lane holds destination pages of the right size and on the right node.
    pub fn has_destination(&self, chunk_move: &ChunkMove<'_>) -> bool {
        self.destination.as_ref().is_some_and(|NodeSlot { shadow, node }| {
            (shadow.size(), *node) == (chunk_move.size, Some(chunk_move.to)) && shadow.pages > 0
        })
    }

    /// Takes the slot with destination pages.
    pub fn take_destination(&mut self) -> Option<NodeSlot> {
        self.destination.take()
    }

    /// Returns a slot with recycled pages on a node. A slot whose pages are no longer
    /// there, because another program moved them or the kernel merged them, is freed.
    pub fn take_recycled(&self, size: PageSize, node: NodeId) -> Option<ShadowSlot> {
        loop {
            let recycled = self.context.slots.take_recycled(size, self.lane, node)?;
            let fits = size == PageSize::Base || self.is_huge_page(&recycled);
            if fits && verify_node::are_all_on_node(&self.context, &recycled, node) {
                return Some(recycled);
            }
            self.context.slots.return_slot(NodeSlot { shadow: recycled, node: None });
        }
    }

    /// Returns whether a recycled chunk is still one huge page: the program may have used parts of
    /// it.
    fn is_huge_page(&self, recycled: &ShadowSlot) -> bool {
        recycled.pages == self.context.chunk_pages()
            && self.context.is_huge_page(recycled.slot.address(0))
    }

    /// Returns a huge page of zeros that is fresh from the kernel.
    pub fn fresh_huge_page(&self, node: Option<NodeId>) -> Result<ShadowSlot, SkipReason> {
        if let Some(node) = node {
            self.context.reserve_headroom(node, self.context.chunk_pages())?;
            prefer_node(&self.context, node)?;
        }
        let slots = &self.context.slots;
        let mut shadow =
            slots.take_unregistered(PageSize::Huge).map_err(|_| SkipReason::NoMemory)?;
        // The fault of one page brings the whole huge page, or only that page.
        let populated = shadow.slot.advise(0..self.context.page_bytes, Advice::Populate).is_ok();
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
        slots.return_slot(NodeSlot { shadow, node: None });
        Err(if populated && !astray { SkipReason::NoHugePage } else { SkipReason::NoMemory })
    }

    /// Takes a slot that has room for `folios` folios from the node of the move.
    pub fn take_emptied(&mut self, chunk_move: &ChunkMove<'_>, folios: usize) -> Option<NodeSlot> {
        let needed = folios * self.folio_pages(chunk_move.size);
        if let Some(emptied) = self.emptied.take() {
            let NodeSlot { shadow, node } = &emptied;
            let fits = (shadow.size(), *node) == (chunk_move.size, chunk_move.from)
                && shadow.pages + needed <= self.context.chunk_pages()
                && !shadow.slot.is_lost();
            if fits {
                return Some(emptied);
            }
            self.context.slots.return_slot(emptied);
        }
        let (size, node) = (chunk_move.size, chunk_move.from);
        let slots = &self.context.slots;
        let roomy = node.and_then(|node| slots.take_roomy(size, self.lane, node, needed));
        let shadow = roomy.map_or_else(|| slots.take_empty(size, self.lane), Ok).ok()?;
        Some(NodeSlot { shadow, node })
    }

    /// Takes back the slot with emptied pages. A full slot goes to the pool at once, because its
    /// pages are in the caches now: if recycled, the next batch copies to them; if freed, the
    /// kernel hands them out again.
    pub fn stow_emptied(&mut self, emptied: NodeSlot) {
        match emptied.shadow.pages == self.context.chunk_pages() {
            true => self.context.slots.return_slot(emptied),
            false => self.emptied = Some(emptied),
        }
    }

    /// Takes back the slot of a batch that did not begin.
    pub fn keep_all(&mut self, target: BatchTarget) {
        if let BatchTarget::InSlot { ready, .. } | BatchTarget::HugePage(ready) = target {
            self.destination = Some(ready);
        }
    }

    /// Takes back what a batch left of its slot. If the slot now has a gap, everything from there
    /// on is freed: its pages would have to be counted one by one.
    pub fn keep_rest(&mut self, target: BatchTarget, clean: bool) {
        let (mut ready, first_folio) = match target {
            BatchTarget::InSlot { ready, first_folio } => (ready, first_folio),
            BatchTarget::HugePage(ready) => (ready, 0),
            BatchTarget::Fresh => return,
        };
        let rest = first_folio * self.folio_pages(ready.shadow.size());
        match clean {
            true => ready.shadow.pages = rest,
            false => ready.shadow.truncate(rest, self.context.page_bytes),
        }
        self.destination = Some(ready);
    }

    fn folio_pages(&self, size: PageSize) -> usize {
        self.context.folio_pages(size)
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

/// Takes back [`prefer_node`] on a thread whose policy was the default one.
pub fn restore_policy() {
    if PREFERRED_NODE.take().is_some() {
        mempolicy::default_memory().expect("every thread may have the default policy");
    }
}
