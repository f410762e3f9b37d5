//! Carries out batches: the work of one lane, or of the fault handler, on the pages of a chunk that
//! it has claimed.
//!
//! Nothing here allocates or frees between taking pages out of sight and bringing them back (or
//! releasing their chunk with the pages out). A thread that touches such a page may hold a lock of
//! the program's allocator, for example in an allocator hook or in a signal handler that
//! interrupted it. The thread behind page faults never allocates at all, see `fault/handler.rs`.

use std::sync::Arc;
use std::time::Instant;

use nodeward_batch::{
    Batch, BatchShape, BatchStep, CopySlice, FolioRefusal, FolioRun, RefusedFolio,
};
use nodeward_model::{Range, SkipReason};
use nodeward_policy::move_method::MoveMethod;
use nodeward_policy::pacing::StallBudget;

use super::chunk_move::ChunkMove;
use super::lane_slots::{BatchTarget, LaneSlots};
use super::page_skips::PageSkips;
use super::report::{MigrationReport, elapsed_ns};
use super::task::MoveParams;
use super::uffd_ops::{FolioSlot, UffdOps, folios_within_extents, whole};
use super::{kernel_batch, refusals, verify_node};
use crate::chunk::{CHUNK_BYTES, PageSize};
use crate::context::PagerContext;
use crate::page_bits::{PAGES_MAX, PageBits};
use crate::pool::{NodeSlot, ShadowSlot};
use crate::region::UnmappedPages;

/// Attempts per batch for a page that is refused with a transient error.
const ATTEMPTS: u32 = 3;

/// The state of one thread that moves pages.
pub struct BatchRunner {
    pub context: Arc<PagerContext>,
    pub slots: LaneSlots,
    batch: Batch,
    refused: Vec<RefusedFolio>,
    folio_slots: Vec<FolioSlot>,
    /// Pages of the chunk that were refused because another process or the kernel holds them.
    busy: PageBits,
    /// Why pages of the last task stayed.
    pub skips: PageSkips,
    /// A spare report with room for every reason, so that none is allocated while pages are out.
    pub scratch: MigrationReport,
}

impl BatchRunner {
    /// State for lane number `lane`. Lanes with different numbers use different sections.
    pub fn new(context: Arc<PagerContext>, lane: usize) -> Self {
        let slots = LaneSlots::new(Arc::clone(&context), lane);
        Self::with_slots(context, slots)
    }

    /// State for a thread of the program, which makes sure of room itself. `lane` is a number that
    /// no lane has.
    pub fn for_caller(context: Arc<PagerContext>, lane: usize) -> Self {
        let slots = LaneSlots::with_room(Arc::clone(&context), lane);
        Self::with_slots(context, slots)
    }

    fn with_slots(context: Arc<PagerContext>, slots: LaneSlots) -> Self {
        let shape =
            BatchShape { folios: 0, folio_pages: 1, page_bytes: 1, copiers: 1, attempts: 1 };
        let most = Batch::PAGES_MAX as usize;
        Self {
            context,
            slots,
            batch: Batch::new(shape),
            refused: Vec::with_capacity(most),
            folio_slots: Vec::with_capacity(most),
            busy: PageBits::default(),
            skips: PageSkips::default(),
            scratch: MigrationReport::preallocated(),
        }
    }

    /// Moves pages of a chunk that are in sight, batch by batch.
    pub fn migrate(
        &mut self,
        chunk_move: &ChunkMove<'_>,
        pages: &PageBits,
        params: &mut MoveParams<'_>,
        report: &mut MigrationReport,
    ) {
        let may_arrive_huge = chunk_move.may_arrive_huge
            && chunk_move.size == PageSize::Base
            && pages.len() == self.context.chunk_pages();
        if may_arrive_huge && self.migrate_to_huge_page(chunk_move, pages, params, report) {
            return;
        }
        let folio_pages = self.context.folio_pages(chunk_move.size);
        let mut room = [0; PAGES_MAX];
        let mut rest = folio_indices(chunk_move.size, pages, &mut room);
        let mut stayed = PageBits::default();
        while !rest.is_empty() {
            let moved = match reason_to_stop(chunk_move, params) {
                Some(why) => Err(why),
                None => self.move_some(chunk_move, rest, params, &mut stayed, report),
            };
            match moved {
                Ok(tried) => {
                    rest = &rest[tried..];
                    let bytes = tried * folio_pages * self.context.page_bytes;
                    params.control.examined(bytes as u64);
                }
                Err(SkipReason::NoHugePage) if params.options.huge_arrival.is_wanted() => {
                    let as_base =
                        ChunkMove { size: PageSize::Base, may_arrive_huge: false, ..*chunk_move };
                    return self.migrate(&as_base, pages, params, report);
                }
                Err(why) => {
                    report.account.skip(why, (rest.len() * folio_pages) as u64);
                    self.skip_folios(rest, folio_pages, why);
                    break;
                }
            }
        }
        if !stayed.is_empty() {
            let chunk_move = ChunkMove { may_use_kernel: false, ..*chunk_move };
            self.migrate(&chunk_move, &stayed, params, report);
        }
    }

    /// Moves the first ones of some folios in one batch, by the method that is cheapest now.
    /// Returns how many it tried. Adds those that the kernel did not move to `stayed`.
    fn move_some(
        &mut self,
        chunk_move: &ChunkMove<'_>,
        folios: &[usize],
        params: &mut MoveParams<'_>,
        stayed: &mut PageBits,
        report: &mut MigrationReport,
    ) -> Result<usize, SkipReason> {
        let folio_pages = self.context.folio_pages(chunk_move.size);
        let most = (batch_pages_max(params) / folio_pages).clamp(1, folios.len());
        let extents_max = self.context.transfer_method.extents_max();
        let most = most.min(folios_within_extents(folios, extents_max));
        let supply = params.options.supply;
        let method = self.slots.choose_method(chunk_move, supply, most);
        if method == MoveMethod::Kernel {
            self.move_by_kernel(chunk_move, &folios[..most], stayed, report);
            return Ok(most);
        }
        let (began, moved) = (Instant::now(), report.account.moved);
        let found = self.slots.find_target(chunk_move, supply, method, most);
        report.step_times.supply_ns += elapsed_ns(began);
        let (target, most) = found?;
        let method = target.method();
        let hold_ns = self.run_batch(chunk_move, &folios[..most], target, report);
        if chunk_move.size == PageSize::Base {
            let moved = report.account.moved - moved;
            self.slots.costs.learn(method, moved, elapsed_ns(began));
        }
        if let Some(stall) = params.stall {
            record_hold(stall, chunk_move.size, (most * folio_pages) as u64, hold_ns);
        }
        Ok(most)
    }

    /// Moves a batch of base pages with move_pages(2) and adds those that stay to `stayed`. The
    /// time that a single page was out of sight is not known, so the time of the whole call is
    /// reported.
    fn move_by_kernel(
        &mut self,
        chunk_move: &ChunkMove<'_>,
        pages: &[usize],
        stayed: &mut PageBits,
        report: &mut MigrationReport,
    ) {
        let began = Instant::now();
        let start = chunk_move.region.start() + chunk_move.chunk_offset as u64;
        let chunk = Range::new(start, start + CHUNK_BYTES as u64);
        let (myself, page_bytes) = (&*self.context.myself, self.context.page_bytes as u64);
        let left = kernel_batch::move_batch(myself, chunk, page_bytes, pages, chunk_move.to);
        let took_ns = elapsed_ns(began);
        left.iter().for_each(|page| stayed.insert(page));
        let moved = (pages.len() - left.len()) as u64;
        match left.len() > pages.len() / 2 {
            true => self.slots.costs.record_failure(MoveMethod::Kernel),
            false => self.slots.costs.learn(MoveMethod::Kernel, moved, took_ns),
        }
        report.account.moved += moved;
        report.one_way_pages += moved;
        report.by_kernel_pages += moved;
        report.batches += 1;
        report.step_times.kernel_ns += took_ns;
        report.longest_hold_ns = report.longest_hold_ns.max(took_ns);
    }

    /// Returns whether the chunk is one huge page: the kernel may have split it.
    fn is_one_huge_page(&self, chunk_move: &ChunkMove<'_>) -> bool {
        self.context.is_huge_page(chunk_move.region.start() + chunk_move.chunk_offset as u64)
    }

    /// Returns an empty report with room for every reason. The caller puts it back into `scratch`.
    pub fn take_scratch(&mut self) -> MigrationReport {
        self.scratch.clear();
        std::mem::take(&mut self.scratch)
    }

    /// Returns the pages that were refused as busy since the last call.
    pub fn take_busy(&mut self) -> PageBits {
        std::mem::take(&mut self.busy)
    }

    /// Carries one batch of folios (indices in the chunk). Returns the time that they were out of
    /// sight, in nanoseconds.
    pub fn run_batch(
        &mut self,
        chunk_move: &ChunkMove<'_>,
        folios: &[usize],
        mut target: BatchTarget,
        report: &mut MigrationReport,
    ) -> u64 {
        let folio_pages = self.context.folio_pages(chunk_move.size);
        let began = Instant::now();
        let emptied = self.slots.take_emptied(chunk_move, folios.len());
        report.step_times.supply_ns += elapsed_ns(began);
        let Some(NodeSlot { shadow: mut emptied, node }) = emptied else {
            self.slots.keep_all(target);
            report.account.skip(SkipReason::NoMemory, (folios.len() * folio_pages) as u64);
            self.skip_folios(folios, folio_pages, SkipReason::NoMemory);
            return 0;
        };
        let before = emptied.pages;
        let folio_slot = |(index, &home)| FolioSlot {
            chunk_index: home,
            slot_index: before / folio_pages + index,
        };
        self.folio_slots.clear();
        self.folio_slots.extend(folios.iter().enumerate().map(folio_slot));
        self.batch.reset(self.shape(chunk_move.size));
        let (hold_ns, moved) = self.run_steps(chunk_move, &mut target, &mut emptied, report);
        self.note_skips(folio_pages);
        let clean = moved == folios.len();
        emptied.pages += folios.len() * folio_pages;
        if !clean || !self.context.transfer_method.can_map_slot_pages() {
            emptied.truncate(before, self.context.page_bytes);
        }
        let (began, method) = (Instant::now(), target.method());
        self.slots.stow_emptied(NodeSlot { shadow: emptied, node });
        self.slots.keep_rest(target, clean);
        report.step_times.supply_ns += elapsed_ns(began);
        if method == MoveMethod::Fresh {
            self.deduct_wrong_node(chunk_move, report);
        }
        hold_ns
    }

    /// Notes why folios (indices in the chunk) stayed.
    fn skip_folios(&mut self, folios: &[usize], folio_pages: usize, why: SkipReason) {
        let pages = folios.iter().flat_map(|folio| folio * folio_pages..(folio + 1) * folio_pages);
        pages.for_each(|page| self.skips.set(page, Some(why)));
    }

    /// Notes which folios of the batch stayed, and why.
    fn note_skips(&mut self, folio_pages: usize) {
        for (folio, index) in self.folio_slots.iter().zip(0..) {
            let (first, why) = (folio.chunk_index * folio_pages, self.batch.skip_reason(index));
            (first..first + folio_pages).for_each(|page| self.skips.set(page, why));
        }
    }

    /// Takes pages out of sight and leaves them there. Pages that cannot be taken out are skipped
    /// in `report`, except busy ones, which [`Self::take_busy`] returns.
    pub fn unmap_lazily(
        &mut self,
        chunk_move: &ChunkMove<'_>,
        pages: &PageBits,
        report: &mut MigrationReport,
    ) -> Option<UnmappedPages> {
        let huge = chunk_move.size == PageSize::Huge && self.is_one_huge_page(chunk_move);
        let size = if huge { PageSize::Huge } else { PageSize::Base };
        let Ok(mut shadow) = self.context.slots.take_empty(size, self.slots.lane) else {
            report.account.skip(SkipReason::NoMemory, pages.len() as u64);
            return None;
        };
        let began = Instant::now();
        self.assign_slots(pages.iter());
        let all = [whole(&self.folio_slots)];
        self.uffd_ops(chunk_move).unmap(&all, &mut shadow);
        let mut out = *pages;
        for refused in self.refused.drain(..) {
            let (FolioRefusal::Transient(why) | FolioRefusal::Final(why)) = refused.refusal;
            let page = self.folio_slots[refused.folio as usize].chunk_index;
            match refused.refusal == refusals::BUSY {
                true => self.busy.insert(page),
                false => report.account.skip(why, 1),
            }
            out.remove(page);
        }
        report.lazy_pages += out.len() as u64;
        report.step_times.unmap_ns += elapsed_ns(began);
        Some(UnmappedPages { shadow, pages: out })
    }

    /// Puts back pages that were left out, and wakes the threads that wait for them.
    pub fn put_back(
        &mut self,
        chunk_move: &ChunkMove<'_>,
        shadow: &mut ShadowSlot,
        pages: &PageBits,
    ) {
        self.assign_slots(pages.iter());
        let all = [whole(&self.folio_slots)];
        self.uffd_ops(chunk_move).put_back(&all, shadow);
        self.refused.clear(); // pages refused here have no home any more
    }

    /// Moves folios that are out of sight, each at its own index of `shadow`, on to their
    /// destination. Folios that cannot be moved are put back, or no longer have a home. Allocates
    /// nothing.
    pub fn migrate_unmapped(
        &mut self,
        chunk_move: &ChunkMove<'_>,
        folios: &[usize],
        mut target: BatchTarget,
        shadow: &mut ShadowSlot,
        report: &mut MigrationReport,
    ) {
        self.assign_slots(folios.iter().copied());
        self.batch.reset_to_unmapped(self.shape(chunk_move.size));
        let (_, moved) = self.run_steps(chunk_move, &mut target, shadow, report);
        self.slots.keep_rest(target, moved == folios.len());
    }

    /// Gives places to folios whose index in the slot equals their index in the chunk.
    fn assign_slots(&mut self, folios: impl Iterator<Item = usize>) {
        self.folio_slots.clear();
        self.folio_slots
            .extend(folios.map(|index| FolioSlot { chunk_index: index, slot_index: index }));
    }

    fn uffd_ops<'a>(&'a mut self, chunk_move: &'a ChunkMove<'a>) -> UffdOps<'a> {
        let folio_bytes = self.context.page_bytes;
        UffdOps {
            context: &self.context,
            chunk_move,
            folio_slots: &self.folio_slots,
            refused: &mut self.refused,
            folio_bytes,
        }
    }

    fn shape(&self, size: PageSize) -> BatchShape {
        BatchShape {
            folios: self.folio_slots.len() as u32,
            folio_pages: self.context.folio_pages(size) as u32,
            page_bytes: self.context.page_bytes as u64,
            copiers: 1,
            attempts: ATTEMPTS,
        }
    }

    /// Carries out the steps of the batch to its end. Returns the longest time that pages were out
    /// of sight (ns), and the number of folios moved.
    fn run_steps(
        &mut self,
        chunk_move: &ChunkMove<'_>,
        target: &mut BatchTarget,
        emptied: &mut ShadowSlot,
        report: &mut MigrationReport,
    ) -> (u64, usize) {
        let Self { context, batch, refused, folio_slots, busy, slots, .. } = self;
        let folio_bytes = match chunk_move.size {
            PageSize::Base => context.page_bytes,
            PageSize::Huge => CHUNK_BYTES,
        };
        let mut ops = UffdOps { context, chunk_move, folio_slots, refused, folio_bytes };
        let (mut hold_ns, mut out_since) = (0, Instant::now());
        loop {
            let began = Instant::now();
            let step = batch.next(ops.refused);
            ops.refused.clear();
            match step {
                BatchStep::Unmap(runs) => {
                    out_since = began;
                    ops.unmap(runs, emptied);
                    ops.note_busy(runs, busy);
                    report.step_times.unmap_ns += elapsed_ns(began);
                }
                BatchStep::Flush => {} // UFFDIO_MOVE does not return before it
                BatchStep::Copy(slices) => {
                    if matches!(target, BatchTarget::HugePage(_)) && !ops.are_whole_chunk(slices) {
                        slots.keep_all(std::mem::replace(target, BatchTarget::Fresh));
                    }
                    copy(&ops, slices, emptied, target);
                    report.step_times.copy_ns += elapsed_ns(began);
                }
                BatchStep::Map(runs) => {
                    map(&mut ops, runs, emptied, target);
                    report.step_times.map_ns += elapsed_ns(began);
                    hold_ns = hold_ns.max(elapsed_ns(out_since));
                }
                BatchStep::PutBack(runs) => {
                    ops.put_back(runs, emptied);
                    hold_ns = hold_ns.max(elapsed_ns(out_since));
                }
                BatchStep::End(account) => {
                    report.account.add(account);
                    report.batches += 1;
                    report.longest_hold_ns = report.longest_hold_ns.max(hold_ns);
                    let moved = account.moved;
                    match target.is_fresh() {
                        true => report.one_way_pages += moved,
                        false => report.recycled_pages += moved,
                    }
                    let folio_pages = (folio_bytes / context.page_bytes) as u64;
                    return (hold_ns, (moved / folio_pages) as usize);
                }
            }
        }
    }

    /// Checks which node the fresh pages of the last batch came from, and corrects the report.
    fn deduct_wrong_node(&mut self, chunk_move: &ChunkMove<'_>, report: &mut MigrationReport) {
        let Self { context, folio_slots, batch, skips, .. } = self;
        let moved = folio_slots.iter().zip(0..).filter(|(_, index)| batch.is_moved(*index));
        let pages = moved.map(|(folio_slot, _)| folio_slot.chunk_index);
        let misplaced_page = |page| skips.set(page, Some(SkipReason::WrongNode));
        verify_node::deduct_wrong_node(context, chunk_move, pages, report, misplaced_page);
    }
}

/// Copies what the kernel does not copy when it maps it.
fn copy(ops: &UffdOps<'_>, slices: &[CopySlice], emptied: &ShadowSlot, target: &mut BatchTarget) {
    match target {
        BatchTarget::InSlot { ready, first_folio } => {
            ops.copy(slices, emptied, &mut ready.shadow, *first_folio);
        }
        BatchTarget::HugePage(ready) => ops.copy(slices, emptied, &mut ready.shadow, 0),
        BatchTarget::Fresh => {}
    }
}

fn map(ops: &mut UffdOps<'_>, runs: &[FolioRun], emptied: &ShadowSlot, target: &mut BatchTarget) {
    match target {
        BatchTarget::InSlot { ready, first_folio } => {
            ops.map(runs, &mut ready.shadow, *first_folio);
        }
        BatchTarget::HugePage(ready) => ops.map_huge(runs, &mut ready.shadow),
        BatchTarget::Fresh => ops.map_fresh(runs, emptied),
    }
}

/// Returns the folios of some pages of a chunk, by their index in it.
pub fn folio_indices<'a>(
    size: PageSize,
    pages: &PageBits,
    room: &'a mut [usize; PAGES_MAX],
) -> &'a [usize] {
    match size {
        PageSize::Base => {
            room.iter_mut().zip(pages.iter()).for_each(|(folio, page)| *folio = page);
            &room[..pages.len()]
        }
        PageSize::Huge => &room[..1],
    }
}

/// Returns why no further batch may begin, if so.
pub fn reason_to_stop(chunk_move: &ChunkMove<'_>, params: &MoveParams<'_>) -> Option<SkipReason> {
    let is_too_large = |stall: &StallBudget| stall.folio_pages_max() < Batch::PAGES_MAX;
    let huge = chunk_move.size == PageSize::Huge;
    if params.control.is_stopped() {
        Some(SkipReason::Interrupted)
    } else if huge && params.stall.as_ref().is_some_and(is_too_large) {
        Some(SkipReason::StallBudget)
    } else {
        None
    }
}

/// Returns the most base pages that the next batch may have.
pub fn batch_pages_max(params: &MoveParams<'_>) -> usize {
    let budget = params.stall.as_ref().map_or(usize::MAX, |stall| stall.run_pages() as usize);
    params.options.batch_pages.min(budget)
}

pub fn record_hold(stall: &mut StallBudget, size: PageSize, pages: u64, hold_ns: u64) {
    match size {
        PageSize::Base => stall.learn(pages, hold_ns),
        PageSize::Huge => stall.learn_huge(pages, hold_ns),
    }
}
