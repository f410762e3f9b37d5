//! Executes the steps of batches as operations of a kernel thread.

use std::collections::VecDeque;

use nodeward_batch::{Batch, BatchShape, BatchStep, CopySlice, FolioRun, RefusedFolio};
use nodeward_model::SkipReason;
use nodeward_scenario::Bug;

use super::batch_folio::{BatchFolio, MigrationContext};
use super::copy_split::{split_copy, split_granularity};
use super::outcome::{FolioOutcome, MigrationResult};
use crate::cpu::{CopyPart, Op};
use crate::ids::{SpaceId, TaskId};
use crate::memory::Folio;
use crate::statistics::CpuTimeKind;
use crate::world::World;

/// Progress of a job, batch by batch.
pub struct BatchMigration {
    space: SpaceId,
    to: usize,
    attempts: u32,
    /// Folios that still have to move, each with its index in the job.
    queue: VecDeque<(usize, Folio)>,
    batch_folios: Vec<BatchFolio>,
    batch: Batch,
    refused: Vec<RefusedFolio>,
    phase: MigrationPhase,
    /// Start time and kind of the present step.
    timed_step: Option<(u64, CpuTimeKind)>,
    result: MigrationResult,
}

/// Action to take before the batch is asked for its next step.
enum MigrationPhase {
    /// Begin the next batch.
    FillBatch,
    /// Nothing.
    NextStep,
    /// The mover copies this part.
    Copy(CopyPart),
    /// Parts that still go to helpers, and whether the time to hand over the next one has passed.
    Dispatch(VecDeque<CopyPart>, bool),
    /// Wait for helpers.
    AwaitHelpers,
    /// Parts that go to the copy engine once it is set up.
    StartDma(VecDeque<CopyPart>),
    /// The copies of these folios become visible.
    MapCopies(Vec<FolioRun>),
    /// The originals of these folios become visible again.
    RemapOriginals(Vec<FolioRun>),
}

/// Result of a step of the batch: time to spend, or the end.
enum StepWork {
    Busy(CpuTimeKind, u64, MigrationPhase),
    End,
}

impl BatchMigration {
    /// Creates a migration to a node, without folios.
    pub fn new(space: SpaceId, to: usize, attempts: u32) -> Self {
        let shape = shape(0, 1, 1, attempts);
        Self {
            space,
            to,
            attempts,
            queue: VecDeque::new(),
            batch_folios: Vec::new(),
            batch: Batch::new(shape),
            refused: Vec::new(),
            phase: MigrationPhase::FillBatch,
            timed_step: None,
            result: MigrationResult::default(),
        }
    }

    /// Adds folios.
    pub fn add(&mut self, folios: Vec<Folio>) {
        let first = self.result.outcomes.len();
        let moved = (0..folios.len()).map(|_| FolioOutcome::Moved); // until one of its pages is not
        self.result.outcomes.extend(moved);
        self.queue.extend((first..).zip(folios));
    }

    /// Returns the results of all folios since the last call.
    pub fn take_result(&mut self) -> MigrationResult {
        std::mem::take(&mut self.result)
    }

    /// Returns the next operation, or `None` when no folio is left.
    pub fn next(&mut self, world: &mut World, task: TaskId) -> Option<Op> {
        if let Some((began_ns, spent)) = self.timed_step.take() {
            self.result.step_ns[spent as usize] += world.now_ns - began_ns;
        }
        let op = loop {
            if let Some(op) = self.advance(world, task) {
                break op;
            }
            if self.queue.is_empty() && matches!(self.phase, MigrationPhase::FillBatch) {
                return None;
            }
        };
        let spent = match op {
            Op::Busy(spent, _) => spent,
            _ => CpuTimeKind::Copy,
        };
        self.timed_step = Some((world.now_ns, spent));
        Some(op)
    }

    /// Executes the present stage. Returns `None` if that takes no time.
    fn advance(&mut self, world: &mut World, task: TaskId) -> Option<Op> {
        let context = MigrationContext {
            cpu: world.tasks[task as usize].cpu,
            space: self.space,
            to: self.to,
        };
        match std::mem::replace(&mut self.phase, MigrationPhase::NextStep) {
            MigrationPhase::FillBatch => self.fill_batch(world),
            MigrationPhase::NextStep => self.begin_step(world, &context),
            MigrationPhase::Copy(mut part) => {
                let copying = part.pop()?;
                self.phase = MigrationPhase::Copy(part);
                Some(Op::Copy(copying))
            }
            MigrationPhase::Dispatch(parts, ready) => self.dispatch(world, task, parts, ready),
            MigrationPhase::AwaitHelpers if world.pending_parts(task) > 0 => {
                self.phase = MigrationPhase::AwaitHelpers;
                Some(Op::Wait)
            }
            MigrationPhase::AwaitHelpers => match world.machine.params.dma_channels {
                0 => busy_op(CpuTimeKind::Copy, world.machine.params.join_ns),
                _ => None,
            },
            MigrationPhase::StartDma(parts) => {
                parts.into_iter().for_each(|part| world.queue_for_dma(task, part));
                self.phase = MigrationPhase::AwaitHelpers;
                None
            }
            MigrationPhase::MapCopies(runs) => {
                let ns =
                    world.map_copies(&context, &mut self.batch_folios, &runs, &mut self.refused);
                busy_op(CpuTimeKind::Map, ns)
            }
            MigrationPhase::RemapOriginals(runs) => {
                let ns = world.remap_originals(
                    &context,
                    &mut self.batch_folios,
                    &runs,
                    &mut self.refused,
                );
                busy_op(CpuTimeKind::Map, ns)
            }
        }
    }

    /// Fills the next batch with as many folios of one size as may go together.
    fn fill_batch(&mut self, world: &mut World) -> Option<Op> {
        self.phase = MigrationPhase::FillBatch;
        let ns = self.split_first_folio(world);
        if ns > 0 {
            return busy_op(CpuTimeKind::Unmap, ns);
        }
        self.batch_folios.clear();
        let most = world.machine.params.batch_pages.max(1);
        let mut pages = 0;
        while let Some((_, folio)) = self.queue.front() {
            let size = folio.len();
            let alike = self.batch_folios.first().is_none_or(|first| first.folio.len() == size);
            let is_split = pages > 0 && self.must_split(world, folio);
            let is_full =
                pages + size > most || self.batch_folios.len() == Batch::PAGES_MAX as usize;
            if pages > 0 && is_full || !alike || is_split {
                break;
            }
            let Some((index, folio)) = self.queue.pop_front() else { break };
            let byte = world.spaces[self.space].folio_byte(&folio);
            if byte.node() == Some(self.to) && !byte.is_in_flight() {
                self.record_outcome(index, folio.len(), FolioOutcome::AlreadyThere);
                continue;
            }
            pages += size;
            let huge = world.spaces[self.space].is_huge_folio(&folio);
            let why = SkipReason::Interrupted;
            self.batch_folios.push(BatchFolio::new(index, folio, huge, self.to, why));
        }
        let (first, params) = (self.batch_folios.first()?, &world.machine.params);
        let cut_bytes = split_granularity(params, &self.batch_folios);
        let cuts = first.folio.len() * params.page_bytes / cut_bytes;
        let mut shape = shape(self.batch_folios.len(), cuts, 1, self.attempts);
        shape.page_bytes = cut_bytes;
        shape.copiers = world.copier_count(self.to) as u32;
        self.batch.reset(shape);
        self.refused.clear();
        self.phase = MigrationPhase::NextStep;
        None
    }

    /// Returns whether a folio has to be split before it moves, or was split already.
    fn must_split(&self, world: &World, folio: &Folio) -> bool {
        let whole = world.machine.params.huge_migration != 0;
        folio.len() > 1 && !(whole && world.spaces[self.space].is_whole_folio(folio))
    }

    /// Splits the first folio if this kernel does not move huge pages. The cost is assumed to be
    /// that of moving a huge page elsewhere, which is a guess.
    fn split_first_folio(&mut self, world: &mut World) -> u64 {
        let Some((_, folio)) = self.queue.front() else { return 0 };
        if !self.must_split(world, folio) {
            return 0;
        }
        let Some((index, folio)) = self.queue.pop_front() else { return 0 };
        let single = |page| (index, Folio { region: folio.region, pages: page..page + 1 });
        folio.pages.clone().rev().for_each(|page| self.queue.push_front(single(page)));
        if !world.spaces[self.space].is_huge_folio(&folio) {
            return 0;
        }
        let byte = world.spaces[self.space].folio_byte(&folio);
        let region = &mut world.spaces[self.space].regions[folio.region];
        region.set(folio.pages.start..folio.pages.start + 1, byte);
        world.machine.params.huge_move_ns
    }

    /// Asks the batch for its next step and begins it.
    fn begin_step(&mut self, world: &mut World, context: &MigrationContext) -> Option<Op> {
        let Self { batch, batch_folios, refused, .. } = self;
        let step = batch.next(refused);
        refused.clear();
        let todo = match step {
            BatchStep::Unmap(runs) => {
                let ns = world.unmap_folios(context, batch_folios, runs, refused);
                StepWork::Busy(CpuTimeKind::Unmap, ns, MigrationPhase::NextStep)
            }
            BatchStep::Flush => {
                let entries = u64::from(batch.unmapped_folios());
                StepWork::Busy(
                    CpuTimeKind::Flush,
                    world.shoot_down_tlb(context.cpu, context.space, entries),
                    MigrationPhase::NextStep,
                )
            }
            BatchStep::Copy(slices) => {
                world.refuse_pinned(context, batch_folios, slices, refused);
                begin_copy(world, context, batch_folios, slices)
            }
            BatchStep::Map(runs) => {
                let ns = world.map_ns(context, batch_folios, runs, true);
                StepWork::Busy(CpuTimeKind::Map, ns, MigrationPhase::MapCopies(runs.to_vec()))
            }
            BatchStep::PutBack(runs) => {
                let ns = world.map_ns(context, batch_folios, runs, false);
                StepWork::Busy(CpuTimeKind::Map, ns, MigrationPhase::RemapOriginals(runs.to_vec()))
            }
            BatchStep::End(_) => StepWork::End,
        };
        match todo {
            StepWork::Busy(spent, ns, then) => {
                self.phase = then;
                busy_op(spent, ns)
            }
            StepWork::End => {
                self.finish_batch(world);
                self.phase = MigrationPhase::FillBatch;
                None
            }
        }
    }

    /// Hands parts to helpers, one after the other.
    fn dispatch(
        &mut self,
        world: &mut World,
        task: TaskId,
        mut parts: VecDeque<CopyPart>,
        ready: bool,
    ) -> Option<Op> {
        if ready && let Some(part) = parts.pop_front() {
            world.queue_for_helper(task, self.to, part);
        }
        if parts.is_empty() {
            self.phase = MigrationPhase::AwaitHelpers;
            return None;
        }
        self.phase = MigrationPhase::Dispatch(parts, true);
        busy_op(CpuTimeKind::Copy, world.machine.params.dispatch_ns)
    }

    /// Records the outcome of each folio of the batch.
    fn finish_batch(&mut self, world: &World) {
        let mut twice = world.fault_model.has_bug(Bug::DoubleCount, world.now_ns);
        for (batch_folio, number) in std::mem::take(&mut self.batch_folios).into_iter().zip(0..) {
            let outcome = match self.batch.is_moved(number) {
                true => FolioOutcome::Moved,
                false if batch_folio.already_there => FolioOutcome::AlreadyThere,
                false => FolioOutcome::Skipped(batch_folio.skip_reason),
            };
            self.record_outcome(batch_folio.job_index, batch_folio.folio.len(), outcome);
            if outcome == FolioOutcome::Moved && std::mem::take(&mut twice) {
                self.record_outcome(batch_folio.job_index, batch_folio.folio.len(), outcome);
            }
        }
    }

    fn record_outcome(&mut self, index: usize, pages: u64, outcome: FolioOutcome) {
        match outcome {
            FolioOutcome::Moved => self.result.account.moved += pages,
            FolioOutcome::AlreadyThere => self.result.account.already_there += pages,
            FolioOutcome::Skipped(why) => self.result.account.skip(why, pages),
        }
        if outcome != FolioOutcome::Moved {
            self.result.outcomes[index] = outcome;
        }
    }
}

/// Begins a copy.
fn begin_copy(
    world: &mut World,
    context: &MigrationContext,
    batch_folios: &[BatchFolio],
    slices: &[CopySlice],
) -> StepWork {
    world.record_copies(context.space, batch_folios, slices);
    let params = &world.machine.params;
    let copiers = world.copier_count(context.to);
    let mut parts: VecDeque<_> =
        split_copy(params, context.to, batch_folios, slices, copiers).into();
    let drained_ns = world.barrier_drain_ns();
    if params.dma_channels > 0 {
        let ns = drained_ns.saturating_add(params.dma_setup_ns);
        return StepWork::Busy(CpuTimeKind::Copy, ns, MigrationPhase::StartDma(parts));
    }
    if copiers > 1 {
        return StepWork::Busy(
            CpuTimeKind::Copy,
            drained_ns,
            MigrationPhase::Dispatch(parts, false),
        );
    }
    StepWork::Busy(
        CpuTimeKind::Copy,
        drained_ns,
        MigrationPhase::Copy(parts.pop_front().unwrap_or_default()),
    )
}

fn shape(folios: usize, folio_pages: u64, copiers: u32, attempts: u32) -> BatchShape {
    let folio_pages = folio_pages as u32;
    BatchShape { folios: folios as u32, folio_pages, page_bytes: 1, copiers, attempts }
}

/// Returns an operation that takes time, or `None` if it takes none.
fn busy_op(spent: CpuTimeKind, ns: u64) -> Option<Op> {
    (ns > 0).then_some(Op::Busy(spent, ns))
}
