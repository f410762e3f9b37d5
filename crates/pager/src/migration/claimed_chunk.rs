//! Work on a chunk while it is claimed.

use std::ops::Range;

use nodeward_model::{Account, NodeId, PageLocation, SkipReason};
use nodeward_policy::pacing::StallBudget;

use super::batch_runner::BatchRunner;
use super::job::TaskControl;
use super::lane_slots::prefer_node;
use super::options::Supply;
use super::refusals::{self, transfer_skipping_refused};
use super::report::MigrationReport;
use super::uffd_ops::ChunkMove;
use crate::chunk::PageSize;
use crate::page_bits::PageBits;
use crate::region::{ChunkState, Claim, LazyPages, RegionShared};
use crate::sys::{Advice, copy_from_slot, map_from_slot};

/// Bytes that the first touch of a range that was left out pulls in. A fault costs about 60 us, and
/// copying this much costs about half of that.
const GRANULE_BYTES: usize = 256 << 10;

/// Options of a job, as its chunks need them.
#[derive(Clone, Copy, Default)]
pub struct MoveOptions {
    /// Destination pages to use.
    pub supply: Supply,
    /// Maximum number of base pages in a batch.
    pub batch_pages: usize,
    /// Move pages that are on the destination already, too.
    pub even_if_there: bool,
}

/// A claimed chunk, and the carrier and region to work on it with.
pub struct ClaimedChunk<'a> {
    pub runner: &'a mut BatchRunner,
    pub region: &'a RegionShared,
    pub claim: Claim<ChunkState>,
}

impl ClaimedChunk<'_> {
    fn chunk_move<'a>(
        core: &'a RegionShared,
        chunk: usize,
        to: NodeId,
        control: &'a TaskControl<'a>,
    ) -> ChunkMove<'a> {
        ChunkMove {
            region: &core.mapping,
            chunk_offset: core.chunk_bytes(chunk).start,
            size: core.size,
            from: core.context.only_node(),
            to,
            supply: Supply::Any,
            may_use_kernel: false,
            batch_pages: core.context.chunk_pages(),
            control,
        }
    }

    /// Brings back all pages that were left out.
    pub fn return_lazy_pages(&mut self) {
        let Some(mut left) = self.claim.state.lazy.take() else { return };
        let to = NodeId(0); // unused: nothing is moved
        let chunk_move =
            Self::chunk_move(self.region, self.claim.chunk, to, TaskControl::detached());
        self.runner.put_back(&chunk_move, &mut left.unmapped.shadow, &left.unmapped.pages);
        self.region.return_slot(left, false);
    }

    /// Moves pages to a node. Busy pages that only look shared (no other process maps them any
    /// more) are tried once more, after a write that changes nothing has made them private again.
    /// The chunk is released for that write, because it may fault. Returns the claim, or `None` if
    /// the region is being dropped.
    pub fn migrate(
        mut self,
        pages: PageBits,
        to: NodeId,
        how: &MoveOptions,
        control: &TaskControl<'_>,
        stall: &mut Option<StallBudget>,
        report: &mut MigrationReport,
    ) -> Option<Claim<ChunkState>> {
        self.return_lazy_pages();
        let mut first = self.runner.take_scratch();
        self.migrate_once(pages, to, how, control, stall, &mut first);
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
        report.add(&first);
        self.runner.scratch = first;
        let Some(mut again) = self.unshare(&alone) else {
            report.account.skip(SkipReason::Interrupted, alone.len() as u64);
            return None;
        };
        again.migrate_once(alone, to, how, control, stall, report);
        again.runner.take_busy();
        Some(again.claim)
    }

    /// Makes pages that only look shared private again, with the chunk released meanwhile. Returns
    /// `None` if the region is being dropped.
    fn unshare(self, alone: &PageBits) -> Option<Self> {
        let Self { runner, region: core, claim } = self;
        let chunk = claim.chunk;
        core.release(claim);
        unshare_pages(core, chunk, alone);
        let claim = core.claims.claim(chunk).ok()?;
        Some(ClaimedChunk { runner, region: core, claim })
    }

    fn migrate_once(
        &mut self,
        pages: PageBits,
        to: NodeId,
        how: &MoveOptions,
        control: &TaskControl<'_>,
        stall: &mut Option<StallBudget>,
        report: &mut MigrationReport,
    ) {
        let pages = self.movable_pages(pages, report);
        let whole = pages.len() == self.region.context.chunk_pages();
        let size = if whole { self.region.size } else { PageSize::Base };
        let before = report.account.skipped_total();
        for (from, pages) in self.pages_by_source(pages, to, how, report) {
            let chunk_move = ChunkMove {
                size,
                from,
                supply: how.supply,
                // The kernel does not report how long it keeps a page out of sight.
                may_use_kernel: stall.is_none() && self.may_use_kernel(how),
                batch_pages: how.batch_pages,
                ..Self::chunk_move(self.region, self.claim.chunk, to, control)
            };
            self.runner.migrate(&chunk_move, pages, stall, report);
        }
        let all_there = whole && report.account.skipped_total() == before;
        let stays = !whole && self.claim.state.node == Some(to);
        self.claim.state.node = (all_there || stays).then_some(to);
    }

    /// Returns the pages that may be taken out, and skips the others in `report`.
    fn movable_pages(&self, pages: PageBits, report: &mut MigrationReport) -> PageBits {
        let chunk = self.claim.chunk;
        let pinned = pages.and(&self.region.pinned_pages(chunk));
        report.account.skip(SkipReason::Pinned, pinned.len() as u64);
        let pages = pages.without(&pinned);
        let unmovable = pages.and(&self.region.unmovable_pages(chunk));
        report.account.skip(SkipReason::Unmovable, unmovable.len() as u64);
        pages.without(&unmovable)
    }

    /// Returns whether the kernel may move pages where that is cheaper. It does not move pages that
    /// are on the node already, and of a huge page it moves all of it, not only the named part.
    fn may_use_kernel(&self, how: &MoveOptions) -> bool {
        let context = &self.region.context;
        self.region.size == PageSize::Base && !how.even_if_there && !context.has_one_node()
    }

    /// Groups the pages that are to move by the node they are on. Accounts for the others in
    /// `report`.
    fn pages_by_source(
        &self,
        pages: PageBits,
        to: NodeId,
        how: &MoveOptions,
        report: &mut MigrationReport,
    ) -> Vec<(Option<NodeId>, PageBits)> {
        let context = &self.region.context;
        let known = context.only_node().or(self.claim.state.node);
        // Where taking pages out does not report missing ones, they are located first.
        let known = known.filter(|_| context.transfer_method.can_map_slot_pages());
        if known.is_some_and(|node| node != to || how.even_if_there) {
            return vec![(known, pages)];
        }
        let range = self.region.chunk_addresses(self.claim.chunk);
        let mut places = Vec::with_capacity(context.chunk_pages());
        if context.myself.locations(range, &mut places).is_err() {
            return vec![(None, pages)];
        }
        group_by_node(&pages, &places, (to, how.even_if_there), &mut report.account)
    }

    /// Splits pages that were refused as busy into those that no other process maps, and the
    /// others.
    fn split_by_exclusive(&self, busy: &PageBits) -> (PageBits, PageBits) {
        let mut alone = PageBits::default();
        if !busy.is_empty() {
            let range = self.region.chunk_addresses(self.claim.chunk);
            // Where it cannot be read, all count as shared.
            self.region.context.pages.for_each_exclusive(range, |page| alone.insert(page)).ok();
        }
        (busy.and(&alone), busy.without(&alone))
    }

    /// Leaves pages out of sight until a thread touches them. Busy pages and the returned claim are
    /// treated as by [`ClaimedChunk::migrate`].
    pub fn unmap_lazily(
        mut self,
        pages: PageBits,
        how: &MoveOptions,
        report: &mut MigrationReport,
    ) -> Option<Claim<ChunkState>> {
        let mut first = self.runner.take_scratch();
        self.unmap_lazily_once(pages, how, &mut first);
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
        again.unmap_lazily_once(pages, how, report);
        let busy = again.runner.take_busy();
        report.account.skip(SkipReason::Pinned, busy.len() as u64);
        Some(again.claim)
    }

    fn unmap_lazily_once(
        &mut self,
        pages: PageBits,
        how: &MoveOptions,
        report: &mut MigrationReport,
    ) {
        self.return_lazy_pages();
        let pages = self.movable_pages(pages, report);
        let from = self.region.context.only_node().or(self.claim.state.node);
        let whole = pages.len() == self.region.context.chunk_pages();
        let size = if whole { self.region.size } else { PageSize::Base };
        let chunk_move =
            Self::chunk_move(self.region, self.claim.chunk, NodeId(0), TaskControl::detached());
        let chunk_move = ChunkMove { size, from, ..chunk_move };
        self.claim.state.node = None; // each granule goes to the node where it is touched
        let Some(out) = self.runner.unmap_lazily(&chunk_move, pages, report) else { return };
        let all = out.pages.len() == self.region.context.chunk_pages();
        let size = if all { out.slot_size } else { PageSize::Base };
        let left = LazyPages {
            unmapped: out,
            size,
            emptied_pages: 0,
            from,
            even_if_there: how.even_if_there,
        };
        match left.unmapped.pages.is_empty() {
            true => self.region.return_slot(left, false),
            false => self.claim.state.lazy = Some(left),
        }
    }

    /// Frees pages.
    pub fn discard(&mut self, pages: &PageBits) {
        self.return_lazy_pages();
        self.claim.state.node = None;
        let (core, page_bytes) = (self.region, self.region.context.page_bytes);
        let start = core.chunk_bytes(self.claim.chunk).start;
        for run in pages.runs() {
            let part = start + run.start * page_bytes..start + run.end * page_bytes;
            // Fails only where the program has unmapped the memory itself.
            core.mapping.advise(part, Advice::Discard).ok();
        }
    }

    /// Serves a fault of a thread that runs on node `toucher`: brings in the granule that was left
    /// out, or a page of zeros.
    pub fn serve_fault(&mut self, page: usize, toucher: Option<NodeId>) {
        match self.claim.state.lazy.take() {
            Some(left) if left.unmapped.pages.contains(page) => {
                self.migrate_granule(left, page, toucher);
            }
            left => {
                self.claim.state.lazy = left;
                let placed = self.region.placement.node_of_chunk(self.claim.chunk);
                self.fill_with_zeros(PageBits::of(page..page + 1), placed.or(toucher));
            }
        }
    }

    fn migrate_granule(&mut self, mut left: LazyPages, page: usize, toucher: Option<NodeId>) {
        let granule = granule_pages(self.region, &left, page);
        let to = toucher.or(left.from).unwrap_or(NodeId(0));
        let from = left.from;
        let chunk_move =
            Self::chunk_move(self.region, self.claim.chunk, to, TaskControl::detached());
        let chunk_move = ChunkMove { size: left.size, from, ..chunk_move };
        let stays = from == Some(to) && !left.even_if_there;
        let mut report = self.runner.take_scratch();
        let pulled = !stays
            && self
                .runner
                .migrate_on_fault(&chunk_move, &mut left.unmapped.shadow, &granule, &mut report)
                .is_ok();
        if !pulled {
            self.runner.put_back(&chunk_move, &mut left.unmapped.shadow, &granule);
        }
        left.emptied_pages += usize::try_from(report.account.moved).unwrap_or(0);
        self.runner.scratch = report;
        left.unmapped.pages = left.unmapped.pages.without(&granule);
        match left.unmapped.pages.is_empty() {
            true => {
                let full = left.emptied_pages == self.region.context.chunk_pages();
                self.runner.return_slot(left.into_slot(full));
            }
            false => self.claim.state.lazy = Some(left),
        }
    }

    /// Brings in pages of zeros where none are, and wakes the threads that wait there.
    pub fn fill_with_zeros(&mut self, pages: PageBits, node: Option<NodeId>) {
        if let Some(node) = node {
            prefer_node(&self.region.context, node).ok(); // elsewhere is better than nowhere
        }
        self.claim.state.node = self.claim.state.node.filter(|known| Some(*known) == node);
        // A huge page of zeros would cover pages that are left out.
        let only_these = self.region.size == PageSize::Base || self.claim.state.lazy.is_some();
        if only_these || !self.fill_huge_page(node) {
            self.fill_base_pages(&pages);
        }
        self.region.wake_waiters(self.claim.chunk);
    }

    fn fill_base_pages(&self, pages: &PageBits) {
        let (core, page_bytes) = (self.region, self.region.context.page_bytes);
        let (uffd, start) = (&core.context.uffd, core.chunk_bytes(self.claim.chunk).start);
        for run in pages.runs() {
            let home = start + run.start * page_bytes;
            let copy = |part: Range<usize>| {
                let part = home + part.start..home + part.end;
                copy_from_slot(uffd, (&core.context.zeros, 0), (&core.mapping, part))
            };
            // A page that is already there is as good. Without memory, the shared zero page is
            // mapped: it needs none until it is written to.
            let refused = |page: usize, _| {
                let address = core.mapping.start() + (home + page * page_bytes) as u64;
                uffd.map_zeros(address, page_bytes as u64).ok();
            };
            transfer_skipping_refused(run.len(), page_bytes, copy, refusals::of_map, refused);
        }
    }

    /// Brings in a huge page of zeros if the whole chunk is missing. Returns `false` on failure.
    fn fill_huge_page(&mut self, node: Option<NodeId>) -> bool {
        let core = self.region;
        let Ok(mut fresh) = self.runner.fresh_huge_page(node) else { return false };
        let to = (&core.mapping, core.chunk_bytes(self.claim.chunk));
        let brought = map_from_slot(&core.context.uffd, (&mut fresh.slot, 0), to).is_ok();
        match brought {
            true => fresh.pages = 0,
            false => fresh.clear(),
        }
        self.runner.return_slot((PageSize::Huge, None, fresh));
        brought
    }
}

/// Returns the pages that are pulled in together with `page`.
fn granule_pages(core: &RegionShared, left: &LazyPages, page: usize) -> PageBits {
    let pages = (GRANULE_BYTES / core.context.page_bytes).max(1);
    match left.size {
        PageSize::Base => {
            left.unmapped.pages.and(&PageBits::of(page / pages * pages..(page / pages + 1) * pages))
        }
        PageSize::Huge => left.unmapped.pages,
    }
}

/// Writes to pages without changing them, so that pages once shared with a child become private
/// again. The write may fault, so this thread must not have claimed their chunk.
fn unshare_pages(core: &RegionShared, chunk: usize, pages: &PageBits) {
    let (page_bytes, start) = (core.context.page_bytes, core.chunk_bytes(chunk).start);
    for run in pages.runs() {
        let part = start + run.start * page_bytes..start + run.end * page_bytes;
        core.mapping.advise(part, Advice::Populate).ok(); // pages left shared are refused again
    }
}

/// Groups pages by their node, given the places of all pages of their chunk. Pages that need not or
/// cannot move to the node are accounted for. The node of a page that the kernel is moving right
/// now is not known: taking it out waits until the kernel has put it down.
fn group_by_node(
    pages: &PageBits,
    places: &[PageLocation],
    (to, even_if_there): (NodeId, bool),
    account: &mut Account,
) -> Vec<(Option<NodeId>, PageBits)> {
    let mut sources: Vec<(Option<NodeId>, PageBits)> = Vec::new();
    let mut enter = |from, page| match sources.iter_mut().find(|(node, _)| *node == from) {
        Some((_, pages)) => pages.insert(page),
        None => sources.push((from, PageBits::of(page..page + 1))),
    };
    for page in pages.iter() {
        match places.get(page).copied().unwrap_or(PageLocation::Absent) {
            PageLocation::On(node) if node == to && !even_if_there => account.already_there += 1,
            PageLocation::On(node) => enter(Some(node), page),
            PageLocation::InFlight => enter(None, page),
            PageLocation::Absent => account.skip(SkipReason::NotPresent, 1),
            PageLocation::Swapped => account.skip(SkipReason::Swapped, 1),
            PageLocation::Unmovable => account.skip(SkipReason::Unmovable, 1),
        }
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every page is tried or accounted for. A page that the kernel is moving itself, as
    /// compaction does to make room for huge pages, is tried (it used to be given up as refused).
    #[test]
    fn pages_are_tried_or_accounted_for() {
        let [here, there] = [0, 1].map(NodeId);
        let places = [
            PageLocation::On(here),
            PageLocation::InFlight,
            PageLocation::On(there),
            PageLocation::Absent,
            PageLocation::Swapped,
            PageLocation::Unmovable,
            PageLocation::On(here),
        ];
        let pages = PageBits::of(0..8);
        let sort = |even_if_there| {
            let mut account = Account::default();
            let sources = group_by_node(&pages, &places, (there, even_if_there), &mut account);
            let sources = sources.into_iter().map(|(from, pages)| (from, pages.iter().collect()));
            (sources.collect::<Vec<(_, Vec<_>)>>(), account)
        };
        let (sources, account) = sort(false);
        assert_eq!(sources, [(Some(here), vec![0, 6]), (None, vec![1])]);
        assert_eq!(account.already_there, 1);
        // 3 is absent, and so is 7, of which nothing is known.
        assert_eq!(account.skipped_for(SkipReason::NotPresent), 2);
        assert_eq!(account.skipped_for(SkipReason::Swapped), 1);
        assert_eq!(account.skipped_for(SkipReason::Unmovable), 1);
        assert_eq!(account.skipped_total(), 4);
        let (sources, account) = sort(true);
        assert_eq!(sources, [(Some(here), vec![0, 6]), (None, vec![1]), (Some(there), vec![2])]);
        assert_eq!(account.already_there, 0);
    }
}
