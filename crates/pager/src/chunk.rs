//! Work on a chunk while it is claimed.

use std::ops::Range;

use nodeward_model::{Account, NodeId, Place, SkipReason};
use nodeward_policy::pacing::StallBudget;

use crate::carrier::Carrier;
use crate::core::{Core, LeftOut, Note};
use crate::desk::Claim;
use crate::hands::Trip;
use crate::job::TaskControl;
use crate::page_bits::PageBits;
use crate::refusals::{self, each_refusal};
use crate::stock::prefer;
use crate::sys::{Advice, bring, bring_copy};
use crate::{PageSize, Report, Supply};

/// Bytes that the first touch of a range that was left out pulls in. A fault costs about 60 us, and
/// copying this much costs about half of that.
const GRANULE_BYTES: usize = 256 << 10;

/// Options of a job, as its chunks need them.
#[derive(Clone, Copy, Default)]
pub struct How {
    /// Destination pages to use.
    pub supply: Supply,
    /// Maximum number of base pages in a batch.
    pub batch_pages: usize,
    /// Move pages that are on the destination already, too.
    pub even_if_there: bool,
}

/// A claimed chunk, and the carrier and region to work on it with.
pub struct Work<'a> {
    pub carrier: &'a mut Carrier,
    pub core: &'a Core,
    pub claim: Claim<Note>,
}

impl Work<'_> {
    fn trip<'a>(
        core: &'a Core,
        chunk: usize,
        to: NodeId,
        control: &'a TaskControl<'a>,
    ) -> Trip<'a> {
        Trip {
            home: &core.mapping,
            start: core.chunk(chunk).start,
            size: core.size,
            from: core.shop.only_node(),
            to,
            supply: Supply::Any,
            by_kernel: false,
            batch_pages: core.shop.chunk_pages(),
            control,
        }
    }

    /// Brings back all pages that were left out.
    pub fn return_left_out(&mut self) {
        let Some(mut left) = self.claim.note.left_out.take() else { return };
        let to = NodeId(0); // unused: nothing is moved
        let trip = Self::trip(self.core, self.claim.chunk, to, TaskControl::of_no_job());
        self.carrier.put_back(&trip, &mut left.out.shadow, &left.out.pages);
        self.core.give(left, false);
    }

    /// Moves pages to a node. Busy pages that only look shared (no other process maps them any
    /// more) are tried once more, after a write that changes nothing has made them private again.
    /// The chunk is released for that write, because it may fault. Returns the claim, or `None` if
    /// the region is being dropped.
    pub fn migrate(
        mut self,
        pages: PageBits,
        to: NodeId,
        how: &How,
        control: &TaskControl<'_>,
        stall: &mut Option<StallBudget>,
        report: &mut Report,
    ) -> Option<Claim<Note>> {
        self.return_left_out();
        let mut first = self.carrier.take_scratch();
        self.migrate_once(pages, to, how, control, stall, &mut first);
        let busy = self.carrier.take_busy();
        if busy.is_empty() {
            report.add(&first);
            self.carrier.scratch = first;
            return Some(self.claim);
        }
        let (alone, shared) = self.told_apart(&busy);
        let pinned = first.account.skipped.entry(SkipReason::Pinned).or_default();
        *pinned = pinned.saturating_sub(busy.len() as u64);
        first.account.skip(SkipReason::SharedAfterFork, shared.len() as u64);
        report.add(&first);
        self.carrier.scratch = first;
        let Some(mut again) = self.healed(&alone) else {
            report.account.skip(SkipReason::Interrupted, alone.len() as u64);
            return None;
        };
        again.migrate_once(alone, to, how, control, stall, report);
        again.carrier.take_busy();
        Some(again.claim)
    }

    /// Makes pages that only look shared private again, with the chunk released meanwhile. Returns
    /// `None` if the region is being dropped.
    fn healed(self, alone: &PageBits) -> Option<Self> {
        let Self { carrier, core, claim } = self;
        let chunk = claim.chunk;
        core.release(claim);
        make_ours(core, chunk, alone);
        let claim = core.desk.claim(chunk).ok()?;
        Some(Work { carrier, core, claim })
    }

    fn migrate_once(
        &mut self,
        pages: PageBits,
        to: NodeId,
        how: &How,
        control: &TaskControl<'_>,
        stall: &mut Option<StallBudget>,
        report: &mut Report,
    ) {
        let pages = self.free_to_leave(pages, report);
        let whole = pages.len() == self.core.shop.chunk_pages();
        let size = if whole { self.core.size } else { PageSize::Base };
        let before = report.account.skipped_total();
        for (from, pages) in self.sources(pages, to, how, report) {
            let trip = Trip {
                size,
                from,
                supply: how.supply,
                // The kernel does not report how long it keeps a page out of sight.
                by_kernel: stall.is_none() && self.kernel_may_help(how),
                batch_pages: how.batch_pages,
                ..Self::trip(self.core, self.claim.chunk, to, control)
            };
            self.carrier.migrate(&trip, pages, stall, report);
        }
        let all_there = whole && report.account.skipped_total() == before;
        let stays = !whole && self.claim.note.node == Some(to);
        self.claim.note.node = (all_there || stays).then_some(to);
    }

    /// Returns the pages that may be taken out, and skips the others in `report`.
    fn free_to_leave(&self, pages: PageBits, report: &mut Report) -> PageBits {
        let chunk = self.claim.chunk;
        let pinned = pages.and(&self.core.pinned(chunk));
        report.account.skip(SkipReason::Pinned, pinned.len() as u64);
        let pages = pages.without(&pinned);
        let unmovable = pages.and(&self.core.unmovable(chunk));
        report.account.skip(SkipReason::Unmovable, unmovable.len() as u64);
        pages.without(&unmovable)
    }

    /// Returns whether the kernel may move pages where that is cheaper. It does not move pages that
    /// are on the node already, and of a huge page it moves all of it, not only the named part.
    fn kernel_may_help(&self, how: &How) -> bool {
        let shop = &self.core.shop;
        self.core.size == PageSize::Base && !how.even_if_there && !shop.has_one_node()
    }

    /// Groups the pages that are to move by the node they are on. Accounts for the others in
    /// `report`.
    fn sources(
        &self,
        pages: PageBits,
        to: NodeId,
        how: &How,
        report: &mut Report,
    ) -> Vec<(Option<NodeId>, PageBits)> {
        let shop = &self.core.shop;
        let known = shop.only_node().or(self.claim.note.node);
        // Where taking pages out does not report missing ones, they are located first.
        let known = known.filter(|_| shop.passage.can_bring());
        if known.is_some_and(|node| node != to || how.even_if_there) {
            return vec![(known, pages)];
        }
        let range = self.core.addresses(self.claim.chunk);
        let mut places = Vec::with_capacity(shop.chunk_pages());
        if shop.myself.places(range, &mut places).is_err() {
            return vec![(None, pages)];
        }
        sorted(&pages, &places, (to, how.even_if_there), &mut report.account)
    }

    /// Splits pages that were refused as busy into those that no other process maps, and the
    /// others.
    fn told_apart(&self, busy: &PageBits) -> (PageBits, PageBits) {
        let mut alone = PageBits::default();
        if !busy.is_empty() {
            let range = self.core.addresses(self.claim.chunk);
            // Where it cannot be read, all count as shared.
            self.core.shop.pages.each_of_ours_alone(range, |page| alone.insert(page)).ok();
        }
        (busy.and(&alone), busy.without(&alone))
    }

    /// Leaves pages out of sight until a thread touches them. Busy pages and the returned claim are
    /// treated as by [`Work::migrate`].
    pub fn leave_out(
        mut self,
        pages: PageBits,
        how: &How,
        report: &mut Report,
    ) -> Option<Claim<Note>> {
        let mut first = self.carrier.take_scratch();
        self.leave_out_once(pages, how, &mut first);
        let busy = self.carrier.take_busy();
        let (alone, shared) = self.told_apart(&busy);
        report.account.skip(SkipReason::SharedAfterFork, shared.len() as u64);
        if alone.is_empty() {
            report.add(&first);
        }
        self.carrier.scratch = first;
        if alone.is_empty() {
            return Some(self.claim);
        }
        let pages = pages.without(&shared);
        let Some(mut again) = self.healed(&alone) else {
            report.account.skip(SkipReason::Interrupted, pages.len() as u64);
            return None;
        };
        again.leave_out_once(pages, how, report);
        let busy = again.carrier.take_busy();
        report.account.skip(SkipReason::Pinned, busy.len() as u64);
        Some(again.claim)
    }

    fn leave_out_once(&mut self, pages: PageBits, how: &How, report: &mut Report) {
        self.return_left_out();
        let pages = self.free_to_leave(pages, report);
        let from = self.core.shop.only_node().or(self.claim.note.node);
        let whole = pages.len() == self.core.shop.chunk_pages();
        let size = if whole { self.core.size } else { PageSize::Base };
        let trip = Self::trip(self.core, self.claim.chunk, NodeId(0), TaskControl::of_no_job());
        let trip = Trip { size, from, ..trip };
        self.claim.note.node = None; // each granule goes to the node where it is touched
        let Some(out) = self.carrier.leave_out(&trip, pages, report) else { return };
        let all = out.pages.len() == self.core.shop.chunk_pages();
        let size = if all { out.slots } else { PageSize::Base };
        let left = LeftOut { out, size, emptied: 0, from, even_if_there: how.even_if_there };
        match left.out.pages.is_empty() {
            true => self.core.give(left, false),
            false => self.claim.note.left_out = Some(left),
        }
    }

    /// Frees pages.
    pub fn discard(&mut self, pages: &PageBits) {
        self.return_left_out();
        self.claim.note.node = None;
        let (core, page_bytes) = (self.core, self.core.shop.page_bytes);
        let start = core.chunk(self.claim.chunk).start;
        for run in pages.runs() {
            let part = start + run.start * page_bytes..start + run.end * page_bytes;
            // Fails only where the program has unmapped the memory itself.
            core.mapping.advise(part, Advice::Discard).ok();
        }
    }

    /// Serves a fault of a thread that runs on node `toucher`: brings in the granule that was left
    /// out, or a page of zeros.
    pub fn serve(&mut self, page: usize, toucher: Option<NodeId>) {
        match self.claim.note.left_out.take() {
            Some(left) if left.out.pages.contains(page) => self.pull(left, page, toucher),
            left => {
                self.claim.note.left_out = left;
                let placed = self.core.placement.node_of_chunk(self.claim.chunk);
                self.supply(PageBits::of(page..page + 1), placed.or(toucher));
            }
        }
    }

    fn pull(&mut self, mut left: LeftOut, page: usize, toucher: Option<NodeId>) {
        let granule = granule(self.core, &left, page);
        let to = toucher.or(left.from).unwrap_or(NodeId(0));
        let from = left.from;
        let trip = Self::trip(self.core, self.claim.chunk, to, TaskControl::of_no_job());
        let trip = Trip { size: left.size, from, ..trip };
        let stays = from == Some(to) && !left.even_if_there;
        let mut report = self.carrier.take_scratch();
        let pulled =
            !stays && self.carrier.pull(&trip, &mut left.out.shadow, &granule, &mut report).is_ok();
        if !pulled {
            self.carrier.put_back(&trip, &mut left.out.shadow, &granule);
        }
        left.emptied += usize::try_from(report.account.moved).unwrap_or(0);
        self.carrier.scratch = report;
        left.out.pages = left.out.pages.without(&granule);
        match left.out.pages.is_empty() {
            true => {
                let full = left.emptied == self.core.shop.chunk_pages();
                self.carrier.give(left.into_slot(full));
            }
            false => self.claim.note.left_out = Some(left),
        }
    }

    /// Brings in pages of zeros where none are, and wakes the threads that wait there.
    pub fn supply(&mut self, pages: PageBits, node: Option<NodeId>) {
        if let Some(node) = node {
            prefer(&self.core.shop, node).ok(); // elsewhere is better than nowhere
        }
        self.claim.note.node = self.claim.note.node.filter(|known| Some(*known) == node);
        // A huge page of zeros would cover pages that are left out.
        let only_these = self.core.size == PageSize::Base || self.claim.note.left_out.is_some();
        if only_these || !self.supply_huge(node) {
            self.supply_base(&pages);
        }
        self.core.wake(self.claim.chunk);
    }

    fn supply_base(&self, pages: &PageBits) {
        let (core, page_bytes) = (self.core, self.core.shop.page_bytes);
        let (uffd, start) = (&core.shop.uffd, core.chunk(self.claim.chunk).start);
        for run in pages.runs() {
            let home = start + run.start * page_bytes;
            let copy = |part: Range<usize>| {
                let part = home + part.start..home + part.end;
                bring_copy(uffd, (&core.shop.zeros, 0), (&core.mapping, part))
            };
            // A page that is already there is as good. Without memory, the shared zero page is
            // mapped: it needs none until it is written to.
            let refused = |page: usize, _| {
                let address = core.mapping.start() + (home + page * page_bytes) as u64;
                uffd.zero(address, page_bytes as u64).ok();
            };
            each_refusal(run.len(), page_bytes, copy, refusals::of_map, refused);
        }
    }

    /// Brings in a huge page of zeros if the whole chunk is missing. Returns `false` on failure.
    fn supply_huge(&mut self, node: Option<NodeId>) -> bool {
        let core = self.core;
        let Ok(mut fresh) = self.carrier.fresh_huge_page(node) else { return false };
        let to = (&core.mapping, core.chunk(self.claim.chunk));
        let brought = bring(&core.shop.uffd, (&mut fresh.slot, 0), to).is_ok();
        match brought {
            true => fresh.pages = 0,
            false => fresh.clear(),
        }
        self.carrier.give((PageSize::Huge, None, fresh));
        brought
    }
}

/// Returns the pages that are pulled in together with `page`.
fn granule(core: &Core, left: &LeftOut, page: usize) -> PageBits {
    let pages = (GRANULE_BYTES / core.shop.page_bytes).max(1);
    match left.size {
        PageSize::Base => {
            left.out.pages.and(&PageBits::of(page / pages * pages..(page / pages + 1) * pages))
        }
        PageSize::Huge => left.out.pages,
    }
}

/// Writes to pages without changing them, so that pages once shared with a child become private
/// again. The write may fault, so this thread must not have claimed their chunk.
fn make_ours(core: &Core, chunk: usize, pages: &PageBits) {
    let (page_bytes, start) = (core.shop.page_bytes, core.chunk(chunk).start);
    for run in pages.runs() {
        let part = start + run.start * page_bytes..start + run.end * page_bytes;
        core.mapping.advise(part, Advice::Populate).ok(); // pages left shared are refused again
    }
}

/// Groups pages by their node, given the places of all pages of their chunk. Pages that need not or
/// cannot move to the node are accounted for. The node of a page that the kernel is moving right
/// now is not known: taking it out waits until the kernel has put it down.
fn sorted(
    pages: &PageBits,
    places: &[Place],
    (to, even_if_there): (NodeId, bool),
    account: &mut Account,
) -> Vec<(Option<NodeId>, PageBits)> {
    let mut sources: Vec<(Option<NodeId>, PageBits)> = Vec::new();
    let mut enter = |from, page| match sources.iter_mut().find(|(node, _)| *node == from) {
        Some((_, pages)) => pages.insert(page),
        None => sources.push((from, PageBits::of(page..page + 1))),
    };
    for page in pages.iter() {
        match places.get(page).copied().unwrap_or(Place::Absent) {
            Place::On(node) if node == to && !even_if_there => account.already_there += 1,
            Place::On(node) => enter(Some(node), page),
            Place::InFlight => enter(None, page),
            Place::Absent => account.skip(SkipReason::NotPresent, 1),
            Place::Swapped => account.skip(SkipReason::Swapped, 1),
            Place::Fixed => account.skip(SkipReason::Unmovable, 1),
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
            Place::On(here),
            Place::InFlight,
            Place::On(there),
            Place::Absent,
            Place::Swapped,
            Place::Fixed,
            Place::On(here),
        ];
        let pages = PageBits::of(0..8);
        let sort = |even_if_there| {
            let mut account = Account::default();
            let sources = sorted(&pages, &places, (there, even_if_there), &mut account);
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
