//! The work of a lane on a chunk that it has claimed: it moves pages, leaves them out, frees them,
//! or brings in zeros.

use nodeward_model::{NodeId, Range, SkipReason};
use nodeward_policy::pacing::StallBudget;

use super::batch_runner::{BatchRunner, batch_pages_max};
use super::chunk_move::ChunkMove;
use super::exclusive_pages::{self, exclusive_pages};
use super::job::JobKind;
use super::options::{HugeArrival, MoveOptions};
use super::page_sources::{SourcePages, group_by_node};
use super::report::MigrationReport;
use super::task::{ChunkTask, MoveParams, TaskControl};
use super::zero_fill::{Waking, fill_with_zeros, may_fill_huge_page};
use crate::chunk::PageSize;
use crate::page_bits::PageBits;
use crate::pool::NodeSlot;
use crate::region::{ChunkState, Claim, LazyPages, RegionShared};
use crate::sys::Advice;

/// A claimed chunk, its region, and the runner that moves its pages.
pub struct ClaimedChunk<'a> {
    pub runner: &'a mut BatchRunner,
    pub region: &'a RegionShared,
    pub claim: Claim<ChunkState>,
}

impl ClaimedChunk<'_> {
    /// Does what a job of this kind does with a chunk. Returns the claim, or `None` if the region
    /// is being dropped.
    pub fn run(
        mut self,
        kind: &JobKind,
        task: &ChunkTask,
        options: &MoveOptions,
        (control, stall): (&TaskControl<'_>, &mut Option<StallBudget>),
        report: &mut MigrationReport,
    ) -> Option<Claim<ChunkState>> {
        match kind {
            JobKind::Migrate => {
                let mut params = MoveParams { to: task.to, options, control, stall };
                return self.migrate(task.pages, &mut params, report);
            }
            JobKind::UnmapLazily => return self.unmap_lazily(task.pages, options, report),
            JobKind::Commit(placement) => {
                self.commit(&task.pages, placement.node_of_chunk(task.chunk));
            }
            JobKind::ReturnLazy => self.return_lazy_pages(),
            JobKind::PrepareForKernel => {
                self.return_lazy_pages();
                self.claim.state.node = None;
            }
            JobKind::Discard => self.discard(&task.pages),
        }
        Some(self.claim)
    }

    /// Brings back all pages that were left out.
    fn return_lazy_pages(&mut self) {
        let Some(mut left) = self.claim.state.lazy.take() else { return };
        let unused = NodeId(0); // nothing is moved
        let chunk_move = ChunkMove::new(self.region, self.claim.chunk, unused);
        self.runner.put_back(&chunk_move, &mut left.unmapped.shadow, &left.unmapped.pages);
        self.region.return_slot(left);
    }

    /// Moves pages to a node. Busy pages that only look shared (no other process maps them any
    /// more) are tried once more, after a write that changes nothing has made them private again.
    /// The chunk is released for that write, because it may fault. Returns the claim, or `None` if
    /// the region is being dropped.
    fn migrate(
        mut self,
        pages: PageBits,
        params: &mut MoveParams<'_>,
        report: &mut MigrationReport,
    ) -> Option<Claim<ChunkState>> {
        self.return_lazy_pages();
        self.runner.skips.clear();
        let mut first = self.runner.take_scratch();
        self.migrate_once(pages, params, &mut first);
        let busy = self.runner.take_busy();
        if busy.is_empty() {
            report.add(&first);
            self.runner.scratch = first;
            return Some(self.claim);
        }
        let (alone, shared) = self.split_by_exclusive(&busy);
        let pinned = first.account.skipped.entry(SkipReason::Pinned).or_default();
        *pinned = pinned.saturating_sub(busy.len() as u64);
        first.account.skip(SkipReason::SharedAfterFork, shared.len() as u64);
        self.runner.skips.skip(&shared, SkipReason::SharedAfterFork);
        self.runner.skips.skip(&alone, SkipReason::Interrupted);
        report.add(&first);
        self.runner.scratch = first;
        let Some(mut again) = self.unshare(&alone) else {
            report.account.skip(SkipReason::Interrupted, alone.len() as u64);
            return None;
        };
        again.migrate_once(alone, params, report);
        again.runner.take_busy();
        Some(again.claim)
    }

    /// Makes pages that only look shared private again, with the chunk released meanwhile. Returns
    /// `None` if the region is being dropped.
    fn unshare(self, alone: &PageBits) -> Option<Self> {
        let Self { runner, region, claim } = self;
        let chunk = claim.chunk;
        region.release(claim);
        exclusive_pages::unshare(region, chunk, alone);
        let claim = region.claims.claim(chunk).ok()?;
        Some(ClaimedChunk { runner, region, claim })
    }

    fn migrate_once(
        &mut self,
        pages: PageBits,
        params: &mut MoveParams<'_>,
        report: &mut MigrationReport,
    ) {
        let pages = self.movable_pages(pages, report);
        let whole = pages.len() == self.region.context.chunk_pages();
        let may_arrive_huge = whole && self.may_arrive_huge(params);
        let size = self.size_of_move(whole, may_arrive_huge);
        let before = (report.account.skipped_total(), report.account.moved);
        for SourcePages { from, pages } in self.pages_by_source(pages, params, report) {
            let chunk_move = ChunkMove {
                size,
                from,
                may_use_kernel: self.may_use_kernel(params),
                may_arrive_huge,
                ..ChunkMove::new(self.region, self.claim.chunk, params.to)
            };
            self.runner.migrate(&chunk_move, &pages, params, report);
        }
        if params.options.huge_arrival.is_wanted() && report.account.moved > before.1 {
            let arrived = (may_arrive_huge || size == PageSize::Huge) && self.is_huge_page();
            report.huge_arrivals += u64::from(arrived && size == PageSize::Base);
            report.huge_fallbacks += u64::from(!arrived);
        }
        let all_there = whole && report.account.skipped_total() == before.0;
        let stays = !whole && self.claim.state.node == Some(params.to);
        self.claim.state.node = (all_there || stays).then_some(params.to);
    }

    /// Returns whether all base pages of the chunk may arrive as one huge page.
    fn may_arrive_huge(&self, params: &MoveParams<'_>) -> bool {
        params.options.huge_arrival == HugeArrival::Possible
            && batch_pages_max(params) >= self.region.context.chunk_pages()
    }

    /// Returns the size of the pages that leave. The kernel may have split a huge page, and a
    /// region of base pages has huge ones where they arrived as such.
    fn size_of_move(&self, whole: bool, may_arrive_huge: bool) -> PageSize {
        let may_be_huge = whole && (self.region.size == PageSize::Huge || may_arrive_huge);
        match may_be_huge && self.is_huge_page() {
            true => PageSize::Huge,
            false => PageSize::Base,
        }
    }

    fn is_huge_page(&self) -> bool {
        let start = self.region.chunk_addresses(self.claim.chunk).start;
        self.region.context.is_huge_page(start)
    }

    /// Returns the pages that may be taken out, and skips the others in `report`.
    fn movable_pages(&mut self, pages: PageBits, report: &mut MigrationReport) -> PageBits {
        let chunk = self.claim.chunk;
        let pinned = pages.and(&self.region.pinned_pages(chunk));
        report.account.skip(SkipReason::Pinned, pinned.len() as u64);
        self.runner.skips.skip(&pinned, SkipReason::Pinned);
        let pages = pages.without(&pinned);
        let unmovable = pages.and(&self.region.unmovable_pages(chunk));
        report.account.skip(SkipReason::Unmovable, unmovable.len() as u64);
        self.runner.skips.skip(&unmovable, SkipReason::Unmovable);
        pages.without(&unmovable)
    }

    /// Returns whether the kernel may move pages where that is cheaper. It does not move pages that
    /// are on the node already, of a huge page it moves all of it, not only the named part, and it
    /// does not report how long it keeps a page out of sight.
    fn may_use_kernel(&self, params: &MoveParams<'_>) -> bool {
        self.region.size == PageSize::Base
            && !params.options.even_if_there
            && params.stall.is_none()
            && !self.region.context.has_one_node()
    }

    /// Groups the pages that are to move by the node they are on. Accounts for the others in
    /// `report`.
    fn pages_by_source(
        &mut self,
        pages: PageBits,
        params: &MoveParams<'_>,
        report: &mut MigrationReport,
    ) -> Vec<SourcePages> {
        let context = &self.region.context;
        let even_if_there = params.options.even_if_there;
        let known = context.only_node().or(self.claim.state.node);
        // Where taking pages out does not report missing ones, they are located first.
        let known = known.filter(|_| context.transfer_method.can_map_slot_pages());
        if known.is_some_and(|node| node != params.to || even_if_there) {
            return vec![SourcePages { from: known, pages }];
        }
        let Some(hull) = pages.hull() else { return Vec::new() };
        let mut places = Vec::with_capacity(hull.len());
        if context.myself.locations(self.addresses(&hull), &mut places).is_err() {
            return vec![SourcePages { from: None, pages }];
        }
        let places = (hull.start, places.as_slice());
        let skips = &mut self.runner.skips;
        let told = (&mut report.account, skips);
        group_by_node(&pages, places, params.to, even_if_there, told)
    }

    /// Returns the addresses of some pages of the chunk.
    fn addresses(&self, pages: &std::ops::Range<usize>) -> Range {
        let start = self.region.chunk_addresses(self.claim.chunk).start;
        let address = |page: usize| start + (page * self.region.context.page_bytes) as u64;
        Range::new(address(pages.start), address(pages.end))
    }

    /// Splits pages that were refused as busy into those that no other process maps, and the
    /// others.
    fn split_by_exclusive(&self, busy: &PageBits) -> (PageBits, PageBits) {
        if busy.is_empty() {
            return Default::default();
        }
        let alone = exclusive_pages(self.region, self.claim.chunk);
        (busy.and(&alone), busy.without(&alone))
    }

    /// Leaves pages out of sight until a thread touches them. Busy pages and the returned claim are
    /// treated as by [`ClaimedChunk::migrate`].
    fn unmap_lazily(
        mut self,
        pages: PageBits,
        options: &MoveOptions,
        report: &mut MigrationReport,
    ) -> Option<Claim<ChunkState>> {
        let mut first = self.runner.take_scratch();
        self.unmap_lazily_once(pages, options, &mut first);
        let busy = self.runner.take_busy();
        let (alone, shared) = self.split_by_exclusive(&busy);
        report.account.skip(SkipReason::SharedAfterFork, shared.len() as u64);
        if alone.is_empty() {
            report.add(&first);
        }
        self.runner.scratch = first;
        if alone.is_empty() {
            return Some(self.claim);
        }
        let pages = pages.without(&shared);
        let Some(mut again) = self.unshare(&alone) else {
            report.account.skip(SkipReason::Interrupted, pages.len() as u64);
            return None;
        };
        again.unmap_lazily_once(pages, options, report);
        let busy = again.runner.take_busy();
        report.account.skip(SkipReason::Pinned, busy.len() as u64);
        Some(again.claim)
    }

    fn unmap_lazily_once(
        &mut self,
        pages: PageBits,
        options: &MoveOptions,
        report: &mut MigrationReport,
    ) {
        self.return_lazy_pages();
        let pages = self.movable_pages(pages, report);
        let from = self.region.context.only_node().or(self.claim.state.node);
        let whole = pages.len() == self.region.context.chunk_pages();
        let size = if whole { self.region.size } else { PageSize::Base };
        let unused = NodeId(0); // nothing is moved yet
        let chunk_move =
            ChunkMove { size, from, ..ChunkMove::new(self.region, self.claim.chunk, unused) };
        self.claim.state.node = None; // each granule goes to the node where it is touched
        let Some(out) = self.runner.unmap_lazily(&chunk_move, &pages, report) else { return };
        let all = out.pages.len() == self.region.context.chunk_pages();
        let size = if all { out.shadow.size() } else { PageSize::Base };
        let left = LazyPages {
            unmapped: out,
            size,
            emptied_pages: 0,
            from,
            even_if_there: options.even_if_there,
        };
        match left.unmapped.pages.is_empty() {
            true => self.region.return_slot(left),
            false => self.claim.state.lazy = Some(left),
        }
    }

    /// Frees pages.
    fn discard(&mut self, pages: &PageBits) {
        self.return_lazy_pages();
        self.claim.state.node = None;
        let (region, page_bytes) = (self.region, self.region.context.page_bytes);
        let start = region.chunk_bytes(self.claim.chunk).start;
        for run in pages.runs() {
            let part = start + run.start * page_bytes..start + run.end * page_bytes;
            // Fails only where the program has unmapped the memory itself.
            region.mapping.advise(part, Advice::Discard).ok();
        }
    }

    /// Brings in pages of zeros where none are.
    fn commit(&mut self, pages: &PageBits, node: Option<NodeId>) {
        self.return_lazy_pages();
        let wants_huge_page = may_fill_huge_page(self.region, &self.claim);
        let mut huge_page =
            wants_huge_page.then(|| self.runner.slots.fresh_huge_page(node).ok()).flatten();
        let (region, huge) = (self.region, huge_page.as_mut());
        fill_with_zeros(region, &mut self.claim, pages, node, huge, Waking::AtOnce);
        if let Some(shadow) = huge_page {
            self.region.context.slots.return_slot(NodeSlot { shadow, node: None });
        }
    }
}
