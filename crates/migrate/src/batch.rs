//! A batch: the state of its folios, and the next step that follows from it.

use nodeward_model::{Account, SkipReason};

use crate::slices::cut;
use crate::{Refusal, Refused, Run, Shape, Slice, Step};

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
    shape: Shape,
    stage: Stage,
    passes_left: u32,
    folios: Vec<Folio>,
    runs: Vec<Run>,
    slices: Vec<Slice>,
    account: Account,
}

/// The step that was returned last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
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
enum Folio {
    /// Mapped at its place, and due for a try; if there is no further try, it stayed for this
    /// reason.
    Home(SkipReason),
    /// About to be unmapped.
    Leaving,
    /// Unmapped, on its way.
    Out,
    /// Unmapped, and to be put back.
    Turned(Refusal),
    /// Unmapped, about to be put back.
    Returning(Refusal),
    /// Mapped as a copy.
    Moved,
    /// Mapped at its place for good, or dropped.
    Skipped(SkipReason),
}

impl Folio {
    /// Returns the state of a folio that is mapped at its place after a refusal.
    fn stayed(why: Refusal) -> Self {
        match why {
            Refusal::Transient(reason) => Self::Home(reason),
            Refusal::Final(reason) => Self::Skipped(reason),
        }
    }

    /// Returns the state after a step that was refused for this folio; `None` if it had no part in
    /// the step.
    fn refused(self, why: Refusal) -> Option<Self> {
        match (self, why) {
            (Self::Leaving, _) => Some(Self::stayed(why)),
            (Self::Out, _) => Some(Self::Turned(why)),
            (Self::Returning(first), Refusal::Transient(_)) => Some(Self::Turned(first)),
            (Self::Returning(_), Refusal::Final(reason)) => Some(Self::Skipped(reason)),
            _ => None,
        }
    }

    /// Returns the state after a step that was not refused for this folio.
    fn done(self, stage: Stage) -> Self {
        match self {
            Self::Leaving => Self::Out,
            Self::Out if stage == Stage::Map => Self::Moved,
            Self::Returning(why) => Self::stayed(why),
            other => other,
        }
    }

    /// Returns the state as part of a step of this kind; `None` if it has no part in it.
    fn taking_part(self, stage: Stage) -> Option<Self> {
        match (stage, self) {
            (Stage::Unmap, Self::Home(_)) => Some(Self::Leaving),
            (Stage::Flush | Stage::Copy | Stage::Map, Self::Out) => Some(self),
            (Stage::PutBack, Self::Turned(why)) => Some(Self::Returning(why)),
            _ => None,
        }
    }

    fn is_out_of_sight(self) -> bool {
        matches!(self, Self::Out | Self::Turned(_) | Self::Returning(_))
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
    pub fn new(shape: Shape) -> Self {
        let mut batch = Self::with_room(shape);
        batch.reset(shape);
        batch
    }

    /// Returns a batch of folios that an earlier unmap left unmapped, and that no CPU can access
    /// any more. It begins with the copy, which counts as part of a first pass.
    ///
    /// # Panics
    /// As [`Batch::new`].
    pub fn of_unmapped(shape: Shape) -> Self {
        let mut batch = Self::with_room(shape);
        batch.reset_to_unmapped(shape);
        batch
    }

    /// Makes this the batch that [`Batch::new`] returns, without allocating.
    ///
    /// # Panics
    /// As [`Batch::new`], and if folios are unmapped, which would be lost.
    pub fn reset(&mut self, shape: Shape) {
        self.begin(shape, Folio::Home(SkipReason::Interrupted), shape.attempts);
    }

    /// Makes this the batch that [`Batch::of_unmapped`] returns, without allocating.
    ///
    /// # Panics
    /// As [`Batch::reset`].
    pub fn reset_to_unmapped(&mut self, shape: Shape) {
        self.begin(shape, Folio::Out, shape.attempts.saturating_sub(1));
    }

    /// Returns the next step, given the folios for which the last step was refused; the caller has
    /// done it for all others. In the first call none is refused. After the end it returns the end
    /// again.
    ///
    /// A refused folio that had no part in the step is a bug of the caller: a panic in builds with
    /// debug assertions, ignored in others.
    pub fn next(&mut self, refused: &[Refused]) -> Step<'_> {
        debug_assert!(self.stage != Stage::Begin || refused.is_empty(), "no step was refused yet");
        self.note(refused);
        self.stage = self.following();
        self.step()
    }

    /// Prevents further passes. Unmapped folios are still moved or put back. Folios that were never
    /// tried are skipped as interrupted, others for the reason of their refusal.
    pub fn stop(&mut self) {
        self.passes_left = 0;
    }

    /// Returns the number of unmapped folios, as far as [`Batch::next`] was told.
    pub fn out(&self) -> u32 {
        self.folios.iter().map(|folio| u32::from(folio.is_out_of_sight())).sum()
    }

    /// Returns true if a folio was moved. Call it at the end.
    pub fn is_moved(&self, folio: u32) -> bool {
        self.folios.get(folio as usize) == Some(&Folio::Moved)
    }

    /// Returns a batch without folios, with room for as many as possible.
    fn with_room(shape: Shape) -> Self {
        let pages = Self::PAGES_MAX as usize;
        Self {
            shape,
            stage: Stage::End,
            passes_left: 0,
            folios: Vec::with_capacity(pages),
            runs: Vec::with_capacity(pages.div_ceil(2)), // a hole between any two
            slices: Vec::with_capacity(pages),           // none is smaller than a page
            // The map has every reason from the start, because it allocates for each new key.
            account: Account { skipped: SkipReason::ALL.map(|r| (r, 0)).into(), ..<_>::default() },
        }
    }

    fn begin(&mut self, shape: Shape, folio: Folio, passes: u32) {
        assert_eq!(self.out(), 0, "folios are out of sight: ask for steps until the end");
        check(&shape);
        self.shape = shape;
        self.stage = Stage::Begin;
        self.passes_left = passes;
        self.folios.clear();
        self.folios.resize(shape.folios as usize, folio);
    }

    /// Records the result of the last step.
    fn note(&mut self, refused: &[Refused]) {
        for &Refused { folio: index, why } in refused {
            let folio = self.folios.get_mut(index as usize);
            let after = folio.as_ref().and_then(|folio| folio.refused(why));
            debug_assert!(after.is_some(), "folio {index} had no part in {:?}", self.stage);
            if let (Some(folio), Some(after)) = (folio, after) {
                *folio = after;
            }
        }
        for folio in &mut self.folios {
            *folio = folio.done(self.stage);
        }
    }

    /// Returns the step that is due. Unmapped folios go on, then turned ones are put back, and only
    /// when no folio is unmapped, others are unmapped.
    fn following(&mut self) -> Stage {
        let onward = match self.stage {
            Stage::Unmap => Stage::Flush,
            Stage::Begin | Stage::Flush => Stage::Copy,
            Stage::Copy | Stage::Map | Stage::PutBack | Stage::End => Stage::Map,
        };
        if self.any(|folio| folio == Folio::Out) {
            onward
        } else if self.any(|folio| matches!(folio, Folio::Turned(_))) {
            Stage::PutBack
        } else if self.passes_left > 0 && self.any(|folio| matches!(folio, Folio::Home(_))) {
            self.passes_left -= 1;
            Stage::Unmap
        } else {
            Stage::End
        }
    }

    fn any(&self, is: impl Fn(Folio) -> bool) -> bool {
        self.folios.iter().any(|&folio| is(folio))
    }

    fn step(&mut self) -> Step<'_> {
        self.gather();
        match self.stage {
            Stage::Unmap => Step::Unmap(&self.runs),
            Stage::Flush => Step::Flush,
            Stage::Copy => {
                cut(&self.runs, &self.shape, &mut self.slices);
                Step::Copy(&self.slices)
            }
            Stage::Map => Step::Map(&self.runs),
            Stage::PutBack => Step::PutBack(&self.runs),
            Stage::Begin | Stage::End => self.end(),
        }
    }

    /// Lists the folios that have part in the step.
    fn gather(&mut self) {
        self.runs.clear();
        for (folio, index) in self.folios.iter_mut().zip(0..) {
            let Some(taking_part) = folio.taking_part(self.stage) else { continue };
            *folio = taking_part;
            match self.runs.last_mut() {
                Some(run) if run.first + run.folios == index => run.folios += 1,
                _ => self.runs.push(Run { first: index, folios: 1 }),
            }
        }
    }

    fn end(&mut self) -> Step<'_> {
        let pages = u64::from(self.shape.folio_pages);
        self.account.moved = 0;
        self.account.skipped.values_mut().for_each(|skipped| *skipped = 0);
        for folio in &self.folios {
            match *folio {
                Folio::Home(reason) | Folio::Skipped(reason) => self.account.skip(reason, pages),
                _ => self.account.moved += pages, // nothing is out of sight at the end
            }
        }
        Step::End(&self.account)
    }
}

fn check(shape: &Shape) {
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
