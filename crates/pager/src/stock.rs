//! The destination pages of a lane, and its slots for emptied pages.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use nodeward_linux::policy;
use nodeward_model::{NodeId, SkipReason};
use nodeward_policy::ways::{Offer, Way, WayCosts};

use crate::carrier::nanoseconds;
use crate::hands::Trip;
use crate::landing;
use crate::shadow::Shadow;
use crate::shop::Shop;
use crate::sys::Advice;
use crate::{CHUNK_BYTES, PageSize, Report, Supply};

/// The destination of the copies of a batch.
pub enum Destination {
    /// The pages of [`Stock::ready`], from this folio on.
    Ready(usize),
    /// Fresh pages that the kernel allocates and fills when they are mapped.
    Fresh,
}

impl Destination {
    /// Returns the transfer method of a batch with this destination.
    pub fn way(&self) -> Way {
        match self {
            Self::Ready(_) => Way::Kept,
            Self::Fresh => Way::Fresh,
        }
    }
}

/// Smallest batch for move_pages(2): each call makes the kernel empty the page lists of all CPUs.
const KERNEL_PAGES_MIN: usize = 64;

/// The slots that a lane holds.
pub struct Stock {
    shop: Arc<Shop>,
    pub lane: usize,
    /// A slot that fills with emptied pages, their size, and the node they are on.
    pub emptied: Option<(PageSize, Option<NodeId>, Shadow)>,
    /// A slot with destination pages, their size, and the node they are on.
    pub ready: Option<(PageSize, NodeId, Shadow)>,
    /// Measured costs of base pages by transfer method.
    pub costs: WayCosts,
}

/// A slot with pages, their size, and the node that they are on, if known.
pub type Kept = (PageSize, Option<NodeId>, Shadow);

thread_local! {
    /// The node that this thread's new pages come from.
    static PREFERRED: Cell<Option<NodeId>> = const { Cell::new(None) };
}

impl Stock {
    /// A stock without slots.
    pub fn new(shop: Arc<Shop>, lane: usize) -> Self {
        let costs = WayCosts::default();
        Self { shop, lane, emptied: None, ready: None, costs }
    }

    /// Gives all slots back, at the end of a job.
    pub fn finish(&mut self) {
        if let Some((size, node, shadow)) = self.emptied.take() {
            self.shop.shadows(size).give(shadow, node);
        }
        if let Some((size, node, shadow)) = self.ready.take() {
            self.shop.shadows(size).give(shadow, Some(node));
        }
    }

    /// Chooses the transfer method of a batch of `pages` base pages.
    pub fn way(&self, trip: &Trip<'_>, pages: usize) -> Way {
        match trip.supply {
            Supply::OneWay => Way::Fresh,
            Supply::Any if trip.size == PageSize::Base => self.cheapest(trip, pages),
            Supply::Any | Supply::Recycled => Way::Kept,
        }
    }

    fn cheapest(&self, trip: &Trip<'_>, pages: usize) -> Way {
        let ready = self.ready.as_ref().is_some_and(|ready| fits(ready, trip));
        let kept = ready || self.shop.shadows(trip.size).has_kept(trip.to);
        let kernel = trip.by_kernel && pages >= KERNEL_PAGES_MIN;
        let way = self.costs.choice(Offer { kept, kernel });
        // The kernel would make room on a full node by reclaiming other pages.
        match way == Way::Kernel && self.shop.room_for(trip.to, pages).is_err() {
            true => self.costs.choice(Offer { kept, kernel: false }),
            false => way,
        }
    }

    /// Finds destination pages for at most `most` folios. Returns them, and the number of folios
    /// that they are enough for.
    pub fn destination(
        &mut self,
        trip: &Trip<'_>,
        way: Way,
        most: usize,
        report: &mut Report,
    ) -> Result<(Destination, usize), SkipReason> {
        let began = Instant::now();
        let found = self.find_destination(trip, way, most);
        report.spent.supply_ns += nanoseconds(began);
        found
    }

    fn find_destination(
        &mut self,
        trip: &Trip<'_>,
        way: Way,
        most: usize,
    ) -> Result<(Destination, usize), SkipReason> {
        let folio_pages = self.shop.folio_pages(trip.size);
        if self.stock_up(trip, way)? {
            let (_, _, ready) = self.ready.as_ref().expect("just stocked up");
            let folios = ready.pages / folio_pages;
            let most = most.min(folios);
            return Ok((Destination::Ready(folios - most), most));
        }
        self.shop.room_for(trip.to, most * folio_pages)?;
        prefer(&self.shop, trip.to)?;
        Ok((Destination::Fresh, most))
    }

    /// Makes sure that `ready` has pages of the right kind. Returns `false` if fresh base pages are
    /// to be used instead.
    fn stock_up(&mut self, trip: &Trip<'_>, way: Way) -> Result<bool, SkipReason> {
        if (trip.size, way) == (PageSize::Base, Way::Fresh) {
            return Ok(false);
        }
        if way != Way::Fresh && self.ready.as_ref().is_some_and(|ready| fits(ready, trip)) {
            return Ok(true);
        }
        if let Some((size, node, shadow)) = self.ready.take() {
            self.shop.shadows(size).give(shadow, Some(node));
        }
        let kept = match way {
            Way::Fresh => None,
            Way::Kept | Way::Kernel => self.kept(trip.size, trip.to),
        };
        let found = match (kept, trip.supply, trip.size) {
            (Some(kept), _, _) => kept,
            (None, Supply::Recycled, _) => return Err(SkipReason::NoMemory),
            (None, _, PageSize::Base) => return Ok(false),
            (None, _, PageSize::Huge) => self.fresh_huge_page(Some(trip.to))?,
        };
        self.ready = Some((trip.size, trip.to, found));
        Ok(true)
    }

    /// Returns a slot with pages that are kept on a node. A slot whose pages are no longer there,
    /// because another program moved them or the kernel merged them, is freed.
    pub fn kept(&self, size: PageSize, node: NodeId) -> Option<Shadow> {
        let shadows = self.shop.shadows(size);
        loop {
            let kept = shadows.kept(self.lane, node)?;
            let fits = size == PageSize::Base || self.is_huge(&kept);
            if fits && landing::is_all_there(&self.shop, &kept, node) {
                return Some(kept);
            }
            shadows.give(kept, None);
        }
    }

    /// Returns whether a kept chunk is still one huge page: the program may have used parts of it.
    fn is_huge(&self, kept: &Shadow) -> bool {
        kept.pages == self.shop.chunk_pages() && self.shop.is_huge_page(kept.slot.address(0))
    }

    /// Returns a huge page of zeros that is fresh from the kernel.
    pub fn fresh_huge_page(&self, node: Option<NodeId>) -> Result<Shadow, SkipReason> {
        if let Some(node) = node {
            self.shop.room_for(node, self.shop.chunk_pages())?;
            prefer(&self.shop, node)?;
        }
        let shadows = self.shop.shadows(PageSize::Huge);
        let mut shadow = shadows.unwatched().map_err(|_| SkipReason::NoMemory)?;
        let whole = 0..CHUNK_BYTES;
        let populated = shadow.slot.advise(whole, Advice::Populate).is_ok();
        let address = shadow.slot.address(0);
        let astray = node.is_some_and(|node| {
            !self.shop.has_one_node() && landing::is_elsewhere(&self.shop, address, node)
        });
        if populated && !astray && self.shop.is_huge_page(address) {
            shadow.pages = self.shop.chunk_pages();
            return Ok(shadow);
        }
        shadow.clear();
        shadows.give(shadow, None);
        Err(if populated && !astray { SkipReason::NoHugePage } else { SkipReason::NoMemory })
    }

    /// Makes sure that `emptied` can take `folios` folios from the trip's node. Returns the index
    /// of the first one in the slot.
    pub fn empty_slot(&mut self, trip: &Trip<'_>, folios: usize) -> Option<usize> {
        let folio_pages = self.shop.folio_pages(trip.size);
        let needed = folios * folio_pages;
        let chunk_pages = self.shop.chunk_pages();
        let fits = |emptied: &(PageSize, Option<NodeId>, Shadow)| {
            (emptied.0, emptied.1) == (trip.size, trip.from)
                && emptied.2.pages + needed <= chunk_pages
                && !emptied.2.slot.is_lost()
        };
        if !self.emptied.as_ref().is_some_and(fits) {
            if let Some((size, node, shadow)) = self.emptied.take() {
                self.shop.shadows(size).give(shadow, node);
            }
            let empty = self.shop.shadows(trip.size).empty(self.lane).ok()?;
            self.emptied = Some((trip.size, trip.from, empty));
        }
        self.emptied.as_ref().map(|(_, _, shadow)| shadow.pages / folio_pages)
    }

    /// Takes back the slot with emptied pages. A full slot goes to the pool at once, because its
    /// pages are in the caches now: if kept, the next batch copies to them; if freed, the kernel
    /// hands them out again.
    pub fn leave(&mut self, size: PageSize, node: Option<NodeId>, emptied: Shadow) {
        match emptied.pages == self.shop.chunk_pages() {
            true => self.shop.shadows(size).give(emptied, node),
            false => self.emptied = Some((size, node, emptied)),
        }
    }

    /// Records what a batch took from the slot with destination pages. If the slot now has a gap,
    /// everything from there on is freed: its pages would have to be counted one by one.
    pub fn settle(&mut self, destination: &Destination, clean: bool, folio_pages: usize) {
        if let (Destination::Ready(first), Some((_, _, ready))) = (destination, &mut self.ready) {
            match clean {
                true => ready.pages = first * folio_pages,
                false => ready.keep(first * folio_pages, self.shop.page_bytes),
            }
        }
    }
}

/// Makes this thread's new pages come from a node. Allocates nothing.
pub fn prefer(shop: &Shop, node: NodeId) -> Result<(), SkipReason> {
    if shop.has_one_node() || PREFERRED.get() == Some(node) {
        return Ok(());
    }
    policy::prefer_memory(node).map_err(|_| SkipReason::NotAllowed)?;
    PREFERRED.set(Some(node));
    Ok(())
}

/// Returns whether destination pages are of the right size and on the right node.
pub fn fits(ready: &(PageSize, NodeId, Shadow), trip: &Trip<'_>) -> bool {
    (ready.0, ready.1) == (trip.size, trip.to) && ready.2.pages > 0
}
