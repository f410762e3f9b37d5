//! Serves a fault in a region: pulls the pages that were left out there to the node of the thread
//! that touched them, or brings in zeros.
//!
//! Nothing here allocates or frees: the allocation thread does that.

use std::sync::Arc;

use nodeward_linux::own_process;
use nodeward_model::{NodeId, SkipReason};

use super::allocation_thread::AllocationClient;
use crate::chunk::{CHUNK_BYTES, PageSize};
use crate::context::PagerContext;
use crate::migration::{
    BatchRunner, ChunkMove, MigrationReport, Waking, fill_with_zeros, folio_indices,
    may_fill_huge_page,
};
use crate::page_bits::{PAGES_MAX, PageBits};
use crate::region::{ChunkState, Claim, FaultClaim, LazyPages, RegionShared};
use crate::sys::{Uffd, UffdFault};

/// Bytes that the first touch of a range that was left out pulls in. A fault costs about 60 us, and
/// copying this much costs about half of that.
const GRANULE_BYTES: usize = 256 << 10;

/// The state of the thread that serves faults.
pub struct FaultServer {
    runner: BatchRunner,
    allocator: AllocationClient,
}

impl FaultServer {
    /// State of the thread. `lane` is a number that no lane has.
    pub fn new(context: &Arc<PagerContext>, lane: usize, allocator: AllocationClient) -> Self {
        Self { runner: BatchRunner::new(Arc::clone(context), lane), allocator }
    }

    /// Returns the userfaultfd that the faults come from.
    pub fn uffd(&self) -> &Arc<Uffd> {
        &self.runner.context.uffd
    }

    /// Serves a fault in a region.
    pub fn serve(&mut self, region: &RegionShared, fault: &UffdFault) {
        let offset = (fault.address - region.mapping.start()) as usize;
        let (chunk, page) =
            (offset / CHUNK_BYTES, offset % CHUNK_BYTES / region.context.page_bytes);
        // While the region is being dropped no thread may use it; its end wakes the threads left.
        let FaultClaim::Claimed(mut claim) = region.claims.claim_for_fault(chunk) else { return };
        let toucher = node_of_thread(&region.context, fault.thread);
        match claim.state.lazy.take() {
            Some(left) if left.unmapped.pages.contains(page) => {
                claim.state.lazy = self.pull_granule(region, chunk, left, page, toucher);
            }
            left => {
                claim.state.lazy = left;
                let placed = region.placement.node_of_chunk(chunk);
                self.fill_page(region, &mut claim, page, placed.or(toucher));
            }
        }
        region.release(claim);
        region.wake_page(fault.address);
    }

    /// Gives back the destination pages that the last faults left.
    pub fn return_destination(&mut self) {
        let left = self.runner.slots.take_destination();
        left.into_iter().for_each(|slot| self.allocator.return_slot(slot));
    }

    /// Brings in the granule of a page. Returns the pages of the chunk that are still left out.
    fn pull_granule(
        &mut self,
        region: &RegionShared,
        chunk: usize,
        mut left: LazyPages,
        page: usize,
        toucher: Option<NodeId>,
    ) -> Option<LazyPages> {
        let granule = granule_pages(region, &left, page);
        let (from, to) = (left.from, toucher.or(left.from).unwrap_or(NodeId(0)));
        let chunk_move = ChunkMove { size: left.size, from, ..ChunkMove::new(region, chunk, to) };
        let stays = from == Some(to) && !left.even_if_there;
        let mut report = self.runner.take_scratch();
        let pulled = !stays && self.migrate(&chunk_move, &mut left, &granule, &mut report).is_ok();
        if !pulled {
            self.runner.put_back(&chunk_move, &mut left.unmapped.shadow, &granule);
        }
        left.emptied_pages += usize::try_from(report.account.moved).unwrap_or(0);
        self.runner.scratch = report;
        left.unmapped.pages = left.unmapped.pages.without(&granule);
        if !left.unmapped.pages.is_empty() {
            return Some(left);
        }
        let full = left.emptied_pages == region.context.chunk_pages();
        self.allocator.return_slot(left.into_slot(full));
        None
    }

    /// Moves pages that were left out on to their destination. Pages that cannot be moved are put
    /// back, or no longer have a home. After an error some pages are still out, and the caller has
    /// to put all of them back.
    fn migrate(
        &mut self,
        chunk_move: &ChunkMove<'_>,
        left: &mut LazyPages,
        pages: &PageBits,
        report: &mut MigrationReport,
    ) -> Result<(), SkipReason> {
        let mut room = [0; PAGES_MAX];
        let mut rest = folio_indices(chunk_move.size, pages, &mut room);
        while !rest.is_empty() {
            let (target, most) =
                self.allocator.destination(&mut self.runner.slots, chunk_move, rest.len())?;
            let (now, later) = rest.split_at(most);
            let shadow = &mut left.unmapped.shadow;
            self.runner.migrate_unmapped(chunk_move, now, target, shadow, report);
            rest = later;
        }
        Ok(())
    }

    /// Brings in a page of zeros, or a huge one.
    fn fill_page(
        &self,
        region: &RegionShared,
        claim: &mut Claim<ChunkState>,
        page: usize,
        node: Option<NodeId>,
    ) {
        let wants_huge_page = may_fill_huge_page(region, claim);
        let mut fresh = wants_huge_page.then(|| self.allocator.huge_page(node).ok()).flatten();
        let huge_page = fresh.as_mut().map(|slot| &mut slot.shadow);
        let pages = PageBits::of(page..page + 1);
        fill_with_zeros(region, claim, &pages, node, huge_page, Waking::ByCaller);
        fresh.into_iter().for_each(|slot| self.allocator.return_slot(slot));
    }
}

/// Returns the pages that are pulled in together with `page`.
fn granule_pages(region: &RegionShared, left: &LazyPages, page: usize) -> PageBits {
    let pages = (GRANULE_BYTES / region.context.page_bytes).max(1);
    match left.size {
        PageSize::Base => {
            left.unmapped.pages.and(&PageBits::of(page / pages * pages..(page / pages + 1) * pages))
        }
        PageSize::Huge => left.unmapped.pages,
    }
}

/// Returns the node that a thread runs on now.
fn node_of_thread(context: &PagerContext, tid: u32) -> Option<NodeId> {
    context.only_node().or_else(|| context.topology().node_of_cpu(own_process::cpu_of_thread(tid)?))
}
