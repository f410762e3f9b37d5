//! A tiny memory that carries out the steps of a batch, and asserts at every step that nothing is
//! lost, duplicated, or used while a CPU may still change it.
#![allow(dead_code, reason = "each test program uses a part")]

use nodeward_batch::{
    Batch, BatchShape, BatchStep, CopySlice, FolioRefusal, FolioRun, RefusedFolio,
};
use nodeward_model::{Account, SkipReason};

/// The kind of a step that can be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    Unmap,
    Flush,
    Copy,
    Map,
    PutBack,
}

/// Decides the refusals and stops of a batch.
pub trait FaultInjector {
    /// Returns the refusal of a step for a folio, if it is refused.
    fn refusal(&mut self, kind: StepKind, folio: u32) -> Option<FolioRefusal>;

    /// Returns true if the batch is stopped before its next step.
    fn stop(&mut self) -> bool {
        false
    }
}

impl<F: FnMut(StepKind, u32) -> Option<FolioRefusal>> FaultInjector for F {
    fn refusal(&mut self, kind: StepKind, folio: u32) -> Option<FolioRefusal> {
        self(kind, folio)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FolioContent {
    Original,
    Copy,
}

#[derive(Clone, Debug)]
struct ModelFolio {
    /// The content that is mapped at the folio's place.
    home: Option<FolioContent>,
    /// True if the original is unmapped.
    is_unmapped: bool,
    /// True if some CPU may still use the removed mapping.
    may_be_accessed: bool,
    /// True for each page that was copied.
    copied: Vec<bool>,
    /// The refusal for which it must be put back, if any.
    put_back_reason: Option<FolioRefusal>,
    /// The refusal for which it was not moved so far.
    last: Option<FolioRefusal>,
    dropped: bool,
}

impl ModelFolio {
    fn is_being_moved(&self) -> bool {
        self.is_unmapped && self.put_back_reason.is_none()
    }

    fn may_be_tried(&self) -> bool {
        self.home == Some(FolioContent::Original)
            && !matches!(self.last, Some(FolioRefusal::Final(_)))
    }

    fn places(&self) -> u32 {
        u32::from(self.home.is_some()) + u32::from(self.is_unmapped) + u32::from(self.dropped)
    }
}

/// The memory of one batch.
#[derive(Debug)]
pub struct ModelMemory {
    shape: BatchShape,
    folios: Vec<ModelFolio>,
    /// Passes, including one that begins with the copy.
    passes: u32,
    /// The steps so far, as text.
    pub log: Vec<String>,
}

impl ModelMemory {
    pub fn new(shape: BatchShape) -> Self {
        let folio = ModelFolio {
            home: Some(FolioContent::Original),
            is_unmapped: false,
            may_be_accessed: true,
            copied: vec![false; shape.folio_pages as usize],
            put_back_reason: None,
            last: None,
            dropped: false,
        };
        Self { shape, folios: vec![folio; shape.folios as usize], passes: 0, log: Vec::new() }
    }

    pub fn of_unmapped(shape: BatchShape) -> Self {
        let mut world = Self::new(shape);
        for folio in &mut world.folios {
            (folio.home, folio.is_unmapped, folio.may_be_accessed) = (None, true, false);
        }
        world.passes = 1;
        world
    }

    /// Carries a batch to its end, and returns its account without the reasons that did not occur.
    pub fn drive(&mut self, batch: &mut Batch, faults: &mut dyn FaultInjector) -> Account {
        let mut refused = Vec::new();
        let mut passes_max = self.shape.attempts;
        loop {
            if faults.stop() {
                batch.stop();
                passes_max = passes_max.min(self.passes);
            }
            let out = self.out();
            let step = batch.next(&refused);
            if let BatchStep::End(account) = step {
                let mut told = Account::default();
                told.add(account);
                self.check_end(&told, passes_max);
                let is_copy = |folio: &ModelFolio| folio.home == Some(FolioContent::Copy);
                let agree = |(index, folio)| batch.is_moved(index) == is_copy(folio);
                assert!((0..).zip(&self.folios).all(agree), "{:?}", self.log);
                return told;
            }
            refused = self.carry_out(step, faults);
            assert_eq!(batch.unmapped_folios(), out, "what the batch was told before this step");
            assert!(self.folios.iter().all(|f| f.places() == 1), "{:?}: {self:?}", self.log);
            assert!(self.passes <= passes_max, "{:?}", self.log);
        }
    }

    fn out(&self) -> u32 {
        self.folios.iter().map(|folio| u32::from(folio.is_unmapped)).sum()
    }

    fn matching(&self, is: impl Fn(&ModelFolio) -> bool) -> Vec<u32> {
        (0..).zip(&self.folios).filter(|(_, folio)| is(folio)).map(|(index, _)| index).collect()
    }

    fn carry_out(
        &mut self,
        step: BatchStep<'_>,
        faults: &mut dyn FaultInjector,
    ) -> Vec<RefusedFolio> {
        let (kind, folios) = match step {
            BatchStep::Unmap(runs) => {
                self.passes += 1;
                (StepKind::Unmap, self.folios_of_runs(runs, ModelFolio::may_be_tried))
            }
            BatchStep::Flush => (StepKind::Flush, self.matching(ModelFolio::is_being_moved)),
            BatchStep::Copy(slices) => (StepKind::Copy, self.folios_of_slices(slices)),
            BatchStep::Map(runs) => {
                (StepKind::Map, self.folios_of_runs(runs, ModelFolio::is_being_moved))
            }
            BatchStep::PutBack(runs) => (
                StepKind::PutBack,
                self.folios_of_runs(runs, |folio| folio.put_back_reason.is_some()),
            ),
            BatchStep::End(_) => unreachable!("the end is not carried out"),
        };
        assert!(!folios.is_empty(), "{kind:?} of nothing after {:?}", self.log);
        self.log.push(format!("{kind:?} {folios:?}"));
        let mut refused = Vec::new();
        for folio in folios {
            match faults.refusal(kind, folio) {
                Some(why) => {
                    self.apply_refusal(kind, folio, why);
                    refused.push(RefusedFolio { folio, refusal: why });
                }
                None => self.apply_success(kind, folio),
            }
        }
        refused
    }

    /// Returns the folios in runs, which must be maximal, in order, and exactly those that have
    /// part.
    fn folios_of_runs(
        &self,
        runs: &[FolioRun],
        have_part: impl Fn(&ModelFolio) -> bool,
    ) -> Vec<u32> {
        let apart = |pair: &[FolioRun]| pair[0].first + pair[0].folios < pair[1].first;
        assert!(runs.windows(2).all(apart), "runs that touch are one run: {runs:?}");
        let listed: Vec<u32> = runs.iter().flat_map(|r| r.first..r.first + r.folios).collect();
        assert_eq!(listed, self.matching(have_part), "after {:?}", self.log);
        listed
    }

    /// Returns the folios in slices, which must cover all moving folios once, in parts of about one
    /// size.
    fn folios_of_slices(&self, slices: &[CopySlice]) -> Vec<u32> {
        let BatchShape { folio_pages, page_bytes, copiers, .. } = self.shape;
        let travelling = self.matching(ModelFolio::is_being_moved);
        let of_folio = |&folio: &u32| folio * folio_pages..(folio + 1) * folio_pages;
        let expected: Vec<u64> = travelling.iter().flat_map(of_folio).map(u64::from).collect();
        let of_slice = |slice: &CopySlice| {
            assert!(slice.bytes > 0 && slice.bytes.is_multiple_of(page_bytes), "{slices:?}");
            assert_eq!(slice.offset % page_bytes, 0, "{slices:?}");
            (slice.offset..slice.offset + slice.bytes).step_by(page_bytes as usize)
        };
        let covered = slices.iter().flat_map(of_slice).map(|at| at / page_bytes);
        assert_eq!(covered.collect::<Vec<u64>>(), expected);

        let (pages, mut done) = (expected.len() as u64, 0);
        let parts = pages.min(copiers.into());
        let ends = slices.iter().map(|slice| {
            done += slice.bytes / page_bytes;
            done
        });
        let ends: Vec<u64> = ends.collect();
        assert!((1..=parts).all(|part| ends.contains(&(pages * part / parts))), "{slices:?}");
        let holes = travelling.windows(2).filter(|pair| pair[0] + 1 < pair[1]).count();
        assert!(slices.len() <= holes + parts as usize, "{slices:?}");
        travelling
    }

    fn apply_refusal(&mut self, kind: StepKind, folio: u32, why: FolioRefusal) {
        let folio = &mut self.folios[folio as usize];
        match (kind, why) {
            (StepKind::Unmap, _) => folio.last = Some(why),
            (StepKind::Flush | StepKind::Copy | StepKind::Map, _) => {
                folio.put_back_reason = Some(why);
            }
            (StepKind::PutBack, FolioRefusal::Transient(_)) => {}
            (StepKind::PutBack, FolioRefusal::Final(_)) => {
                (folio.is_unmapped, folio.dropped) = (false, true);
                (folio.put_back_reason, folio.last) = (None, Some(why));
            }
        }
    }

    fn apply_success(&mut self, kind: StepKind, folio: u32) {
        let folio = &mut self.folios[folio as usize];
        match kind {
            StepKind::Unmap => {
                (folio.home, folio.is_unmapped, folio.may_be_accessed) = (None, true, true);
                folio.copied.fill(false);
            }
            StepKind::Flush => folio.may_be_accessed = false,
            StepKind::Copy => {
                assert!(!folio.may_be_accessed, "a CPU may still write to it");
                folio.copied.fill(true);
            }
            StepKind::Map => {
                assert!(folio.copied.iter().all(|&copied| copied) && !folio.may_be_accessed);
                (folio.home, folio.is_unmapped) = (Some(FolioContent::Copy), false);
            }
            StepKind::PutBack => {
                (folio.home, folio.is_unmapped) = (Some(FolioContent::Original), false);
                folio.last = folio.put_back_reason.take();
            }
        }
    }

    fn check_end(&self, told: &Account, passes_max: u32) {
        assert_eq!(self.out(), 0, "{:?}", self.log);
        let pages = u64::from(self.shape.folio_pages);
        let mut expected = Account::default();
        for folio in &self.folios {
            match (folio.home, folio.last) {
                (Some(FolioContent::Copy), _) => expected.moved += pages,
                (_, Some(FolioRefusal::Final(reason))) => expected.skip(reason, pages),
                (_, last) => {
                    assert_eq!(self.passes, passes_max, "it could be tried again");
                    let reason = last.map_or(SkipReason::Interrupted, reason_of);
                    expected.skip(reason, pages);
                }
            }
        }
        assert_eq!(told, &expected, "{:?}", self.log);
    }
}

fn reason_of(why: FolioRefusal) -> SkipReason {
    match why {
        FolioRefusal::Transient(reason) | FolioRefusal::Final(reason) => reason,
    }
}
