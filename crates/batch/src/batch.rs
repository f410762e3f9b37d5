//! A batch: the state of its folios, and the next step that follows from it.

use nodeward_model::{Account, SkipReason};

use crate::copy_slices::split_copy;
use crate::{BatchShape, BatchStep, CopySlice, FolioRefusal, FolioRun, RefusedFolio};

/// One batch of a migration. Call [`Batch::next`] for a step, carry it out, and call it again.
///
/// A *pass* unmaps all folios that are due, flushes, copies, and maps the copies. Folios that were
/// refused in the copy or the map are put back at once. The next pass retries transient refusals.
///
/// Buffers for the largest batch are allocated when a batch is made (about 12 KiB). Nothing else
/// allocates or frees, so that a batch can be carried out, and the next one begun, while the memory
/// of the allocator itself is unmapped.
#[derive(Debug)]
pub struct Batch {
    shape: BatchShape,
    phase: Phase,
    passes_left: u32,
    states: Vec<FolioState>,
    runs: Vec<FolioRun>,
    slices: Vec<CopySlice>,
    account: Account,
}

/// The step that was returned last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No step yet.
    Begin,
    Unmap,
    Flush,
    Copy,
    Map,
    PutBack,
    End,
}

/// The state of a folio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FolioState {
    /// Mapped at its place, and due for a try; if there is no further try, it stayed for this
    /// reason.
    Mapped(SkipReason),
    /// About to be unmapped.
    Unmapping,
    /// Unmapped, on its way.
    Unmapped,
    /// Unmapped, and to be put back.
    AwaitingPutBack(FolioRefusal),
    /// Unmapped, about to be put back.
    PuttingBack(FolioRefusal),
    /// Mapped as a copy.
    Moved,
    /// Mapped at its place for good, or dropped.
    Skipped(SkipReason),
}

impl FolioState {
    /// Returns the state of a folio that is mapped at its place after a refusal.
    fn mapped_after(why: FolioRefusal) -> Self {
        match why {
            FolioRefusal::Transient(reason) => Self::Mapped(reason),
            FolioRefusal::Final(reason) => Self::Skipped(reason),
        }
    }

    /// Returns the state after a step that was refused for this folio; `None` if it had no part in
    /// the step.
    fn after_refusal(self, why: FolioRefusal) -> Option<Self> {
        match (self, why) {
            (Self::Unmapping, _) => Some(Self::mapped_after(why)),
            (Self::Unmapped, _) => Some(Self::AwaitingPutBack(why)),
            (Self::PuttingBack(first), FolioRefusal::Transient(_)) => {
                Some(Self::AwaitingPutBack(first))
            }
            (Self::PuttingBack(_), FolioRefusal::Final(reason)) => Some(Self::Skipped(reason)),
            _ => None,
        }
    }

    /// Returns the state after a step that was not refused for this folio.
    fn after_success(self, stage: Phase) -> Self {
        match self {
            Self::Unmapping => Self::Unmapped,
            Self::Unmapped if stage == Phase::Map => Self::Moved,
            Self::PuttingBack(why) => Self::mapped_after(why),
            other => other,
        }
    }

    /// Returns the state as part of a step of this kind; `None` if it has no part in it.
    fn entering(self, stage: Phase) -> Option<Self> {
        match (stage, self) {
            (Phase::Unmap, Self::Mapped(_)) => Some(Self::Unmapping),
            (Phase::Flush | Phase::Copy | Phase::Map, Self::Unmapped) => Some(self),
            (Phase::PutBack, Self::AwaitingPutBack(why)) => Some(Self::PuttingBack(why)),
            _ => None,
        }
    }

    fn is_unmapped(self) -> bool {
        matches!(self, Self::Unmapped | Self::AwaitingPutBack(_) | Self::PuttingBack(_))
    }
}

impl Batch {
    /// Limit on the base pages of a batch: one huge page. So a thread waits for a batch no longer
    /// than for a huge page, as in Linux (NR_MAX_BATCHED_MIGRATION).
    pub const PAGES_MAX: u32 = 512;

    /// Returns a batch of folios that are all mapped.
    ///
    /// # Panics
    /// If the shape has more than [`Batch::PAGES_MAX`] pages, or a 0 in a field that must be 1 or
    /// more.
    pub fn new(shape: BatchShape) -> Self {
        let mut batch = Self::with_capacity(shape);
        batch.reset(shape);
        batch
    }

    /// Returns a batch of folios that an earlier unmap left unmapped, and that no CPU can access
    /// any more. It begins with the copy, which counts as part of a first pass.
    ///
    /// # Panics
    /// As [`Batch::new`].
    pub fn from_unmapped(shape: BatchShape) -> Self {
        let mut batch = Self::with_capacity(shape);
        batch.reset_to_unmapped(shape);
        batch
    }

    /// Makes this the batch that [`Batch::new`] returns, without allocating.
    ///
    /// # Panics
    /// As [`Batch::new`], and if folios are unmapped, which would be lost.
    pub fn reset(&mut self, shape: BatchShape) {
        self.restart(shape, FolioState::Mapped(SkipReason::Interrupted), shape.attempts);
    }

    /// Makes this the batch that [`Batch::from_unmapped`] returns, without allocating.
    ///
    /// # Panics
    /// As [`Batch::reset`].
    pub fn reset_to_unmapped(&mut self, shape: BatchShape) {
        self.restart(shape, FolioState::Unmapped, shape.attempts.saturating_sub(1));
    }

    /// Returns the next step, given the folios for which the last step was refused; the caller has
    /// done it for all others. In the first call none is refused. After the end it returns the end
    /// again.
    ///
    /// A refused folio that had no part in the step is a bug of the caller: a panic in builds with
    /// debug assertions, ignored in others.
    pub fn next(&mut self, refused: &[RefusedFolio]) -> BatchStep<'_> {
        debug_assert!(self.phase != Phase::Begin || refused.is_empty(), "no step was refused yet");
        self.record_results(refused);
        self.phase = self.next_phase();
        self.step()
    }

    /// Prevents further passes. Unmapped folios are still moved or put back. Folios that were never
    /// tried are skipped as interrupted, others for the reason of their refusal.
    pub fn stop(&mut self) {
        self.passes_left = 0;
    }

    /// Returns the number of unmapped folios, as far as [`Batch::next`] was told.
    pub fn unmapped_folios(&self) -> u32 {
        self.states.iter().map(|folio| u32::from(folio.is_unmapped())).sum()
    }

    /// Returns true if a folio was moved. Call it at the end.
    pub fn is_moved(&self, folio: u32) -> bool {
        self.states.get(folio as usize) == Some(&FolioState::Moved)
    }

    /// Returns why a folio was not moved; `None` if it was. Call it at the end.
    pub fn skip_reason(&self, folio: u32) -> Option<SkipReason> {
        match self.states.get(folio as usize) {
            Some(FolioState::Mapped(reason) | FolioState::Skipped(reason)) => Some(*reason),
            _ => None,
        }
    }

    /// Returns a batch without folios, with room for as many as possible.
    fn with_capacity(shape: BatchShape) -> Self {
        let pages = Self::PAGES_MAX as usize;
        Self {
            shape,
            phase: Phase::End,
            passes_left: 0,
            states: Vec::with_capacity(pages),
            runs: Vec::with_capacity(pages.div_ceil(2)), // a hole between any two
            slices: Vec::with_capacity(pages),           // none is smaller than a page
            // The map has every reason from the start, because it allocates for each new key.
            account: Account { skipped: SkipReason::ALL.map(|r| (r, 0)).into(), ..<_>::default() },
        }
    }

    fn restart(&mut self, shape: BatchShape, folio: FolioState, passes: u32) {
        assert_eq!(
            self.unmapped_folios(),
            0,
            "folios are out of sight: ask for steps until the end"
        );
        validate(&shape);
        self.shape = shape;
        self.phase = Phase::Begin;
        self.passes_left = passes;
        self.states.clear();
        self.states.resize(shape.folios as usize, folio);
    }

    /// Records the result of the last step.
    fn record_results(&mut self, refused: &[RefusedFolio]) {
        for &RefusedFolio { folio: index, refusal: why } in refused {
            let folio = self.states.get_mut(index as usize);
            let after = folio.as_ref().and_then(|folio| folio.after_refusal(why));
            debug_assert!(after.is_some(), "folio {index} had no part in {:?}", self.phase);
            if let (Some(folio), Some(after)) = (folio, after) {
                *folio = after;
            }
        }
        for folio in &mut self.states {
            *folio = folio.after_success(self.phase);
        }
    }

    /// Returns the step that is due. Unmapped folios go on, then turned ones are put back, and only
    /// when no folio is unmapped, others are unmapped.
    fn next_phase(&mut self) -> Phase {
        let onward = match self.phase {
            Phase::Unmap => Phase::Flush,
            Phase::Begin | Phase::Flush => Phase::Copy,
            Phase::Copy | Phase::Map | Phase::PutBack | Phase::End => Phase::Map,
        };
        if self.any(|folio| folio == FolioState::Unmapped) {
            onward
        } else if self.any(|folio| matches!(folio, FolioState::AwaitingPutBack(_))) {
            Phase::PutBack
        } else if self.passes_left > 0 && self.any(|folio| matches!(folio, FolioState::Mapped(_))) {
            self.passes_left -= 1;
            Phase::Unmap
        } else {
            Phase::End
        }
    }

    fn any(&self, is: impl Fn(FolioState) -> bool) -> bool {
        self.states.iter().any(|&folio| is(folio))
    }

    fn step(&mut self) -> BatchStep<'_> {
        self.collect_runs();
        match self.phase {
            Phase::Unmap => BatchStep::Unmap(&self.runs),
            Phase::Flush => BatchStep::Flush,
            Phase::Copy => {
                split_copy(&self.runs, &self.shape, &mut self.slices);
                BatchStep::Copy(&self.slices)
            }
            Phase::Map => BatchStep::Map(&self.runs),
            Phase::PutBack => BatchStep::PutBack(&self.runs),
            Phase::Begin | Phase::End => self.end(),
        }
    }

    /// Lists the folios that have part in the step.
    fn collect_runs(&mut self) {
        self.runs.clear();
        for (folio, index) in self.states.iter_mut().zip(0..) {
            let Some(taking_part) = folio.entering(self.phase) else { continue };
            *folio = taking_part;
            match self.runs.last_mut() {
                Some(run) if run.first + run.folios == index => run.folios += 1,
                _ => self.runs.push(FolioRun { first: index, folios: 1 }),
            }
        }
    }

    fn end(&mut self) -> BatchStep<'_> {
        let pages = u64::from(self.shape.folio_pages);
        self.account.moved = 0;
        self.account.skipped.values_mut().for_each(|skipped| *skipped = 0);
        for folio in &self.states {
            match *folio {
                FolioState::Mapped(reason) | FolioState::Skipped(reason) => {
                    self.account.skip(reason, pages);
                }
                _ => self.account.moved += pages, // nothing is out of sight at the end
            }
        }
        BatchStep::End(&self.account)
    }
}

fn validate(shape: &BatchShape) {
    let pages = shape.folios.checked_mul(shape.folio_pages);
    assert!(
        pages.is_some_and(|pages| pages <= Batch::PAGES_MAX),
        "{} folios of {} pages are more than {} pages: make several batches of them",
        shape.folios,
        shape.folio_pages,
        Batch::PAGES_MAX,
    );
    let least = shape.folio_pages.min(shape.copiers).min(shape.attempts);
    assert!(least > 0 && shape.page_bytes > 0, "only the number of folios may be 0: {shape:?}");
}
