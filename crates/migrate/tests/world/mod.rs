//! A tiny memory that carries out the steps of a batch, and asserts at every step that nothing is
//! lost, duplicated, or used while a CPU may still change it.
#![allow(dead_code, reason = "each test program uses a part")]

use nodeward_migrate::{Batch, Refusal, Refused, Run, Shape, Slice, Step};
use nodeward_model::{Account, SkipReason};

/// The kind of a step that can be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Unmap,
    Flush,
    Copy,
    Map,
    PutBack,
}

/// Decides the refusals and stops of a batch.
pub trait Fate {
    /// Returns the refusal of a step for a folio, if it is refused.
    fn refusal(&mut self, kind: Kind, folio: u32) -> Option<Refusal>;

    /// Returns true if the batch is stopped before its next step.
    fn stop(&mut self) -> bool {
        false
    }
}

impl<F: FnMut(Kind, u32) -> Option<Refusal>> Fate for F {
    fn refusal(&mut self, kind: Kind, folio: u32) -> Option<Refusal> {
        self(kind, folio)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Original,
    Copy,
}

#[derive(Clone, Debug)]
struct Folio {
    /// The content that is mapped at the folio's place.
    home: Option<Content>,
    /// True if the original is unmapped.
    shadow: bool,
    /// True if some CPU may still use the removed mapping.
    seen: bool,
    /// True for each page that was copied.
    copied: Vec<bool>,
    /// The refusal for which it must be put back, if any.
    turned: Option<Refusal>,
    /// The refusal for which it was not moved so far.
    last: Option<Refusal>,
    dropped: bool,
}

impl Folio {
    fn is_travelling(&self) -> bool {
        self.shadow && self.turned.is_none()
    }

    fn may_be_tried(&self) -> bool {
        self.home == Some(Content::Original) && !matches!(self.last, Some(Refusal::Final(_)))
    }

    fn places(&self) -> u32 {
        u32::from(self.home.is_some()) + u32::from(self.shadow) + u32::from(self.dropped)
    }
}

/// The memory of one batch.
#[derive(Debug)]
pub struct World {
    shape: Shape,
    folios: Vec<Folio>,
    /// Passes, including one that begins with the copy.
    passes: u32,
    /// The steps so far, as text.
    pub log: Vec<String>,
}

impl World {
    pub fn new(shape: Shape) -> Self {
        let folio = Folio {
            home: Some(Content::Original),
            shadow: false,
            seen: true,
            copied: vec![false; shape.folio_pages as usize],
            turned: None,
            last: None,
            dropped: false,
        };
        Self { shape, folios: vec![folio; shape.folios as usize], passes: 0, log: Vec::new() }
    }

    pub fn of_unmapped(shape: Shape) -> Self {
        let mut world = Self::new(shape);
        for folio in &mut world.folios {
            (folio.home, folio.shadow, folio.seen) = (None, true, false);
        }
        world.passes = 1;
        world
    }

    /// Carries a batch to its end, and returns its account without the reasons that did not occur.
    pub fn drive(&mut self, batch: &mut Batch, fate: &mut dyn Fate) -> Account {
        let mut refused = Vec::new();
        let mut passes_max = self.shape.attempts;
        loop {
            if fate.stop() {
                batch.stop();
                passes_max = passes_max.min(self.passes);
            }
            let out = self.out();
            let step = batch.next(&refused);
            if let Step::End(account) = step {
                let mut told = Account::default();
                told.add(account);
                self.check_end(&told, passes_max);
                let is_copy = |folio: &Folio| folio.home == Some(Content::Copy);
                let agree = |(index, folio)| batch.is_moved(index) == is_copy(folio);
                assert!((0..).zip(&self.folios).all(agree), "{:?}", self.log);
                return told;
            }
            refused = self.carry_out(step, fate);
            assert_eq!(batch.out(), out, "what the batch was told before this step");
            assert!(self.folios.iter().all(|f| f.places() == 1), "{:?}: {self:?}", self.log);
            assert!(self.passes <= passes_max, "{:?}", self.log);
        }
    }

    fn out(&self) -> u32 {
        self.folios.iter().map(|folio| u32::from(folio.shadow)).sum()
    }

    fn which(&self, is: impl Fn(&Folio) -> bool) -> Vec<u32> {
        (0..).zip(&self.folios).filter(|(_, folio)| is(folio)).map(|(index, _)| index).collect()
    }

    fn carry_out(&mut self, step: Step<'_>, fate: &mut dyn Fate) -> Vec<Refused> {
        let (kind, folios) = match step {
            Step::Unmap(runs) => {
                self.passes += 1;
                (Kind::Unmap, self.listed(runs, Folio::may_be_tried))
            }
            Step::Flush => (Kind::Flush, self.which(Folio::is_travelling)),
            Step::Copy(slices) => (Kind::Copy, self.sliced(slices)),
            Step::Map(runs) => (Kind::Map, self.listed(runs, Folio::is_travelling)),
            Step::PutBack(runs) => {
                (Kind::PutBack, self.listed(runs, |folio| folio.turned.is_some()))
            }
            Step::End(_) => unreachable!("the end is not carried out"),
        };
        assert!(!folios.is_empty(), "{kind:?} of nothing after {:?}", self.log);
        self.log.push(format!("{kind:?} {folios:?}"));
        let mut refused = Vec::new();
        for folio in folios {
            match fate.refusal(kind, folio) {
                Some(why) => {
                    self.refuse(kind, folio, why);
                    refused.push(Refused { folio, why });
                }
                None => self.obey(kind, folio),
            }
        }
        refused
    }

    /// Returns the folios in runs, which must be maximal, in order, and exactly those that have
    /// part.
    fn listed(&self, runs: &[Run], have_part: impl Fn(&Folio) -> bool) -> Vec<u32> {
        let apart = |pair: &[Run]| pair[0].first + pair[0].folios < pair[1].first;
        assert!(runs.windows(2).all(apart), "runs that touch are one run: {runs:?}");
        let listed: Vec<u32> = runs.iter().flat_map(|r| r.first..r.first + r.folios).collect();
        assert_eq!(listed, self.which(have_part), "after {:?}", self.log);
        listed
    }

    /// Returns the folios in slices, which must cover all moving folios once, in parts of about one
    /// size.
    fn sliced(&self, slices: &[Slice]) -> Vec<u32> {
        let Shape { folio_pages, page_bytes, copiers, .. } = self.shape;
        let travelling = self.which(Folio::is_travelling);
        let of_folio = |&folio: &u32| folio * folio_pages..(folio + 1) * folio_pages;
        let expected: Vec<u64> = travelling.iter().flat_map(of_folio).map(u64::from).collect();
        let of_slice = |slice: &Slice| {
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

    fn refuse(&mut self, kind: Kind, folio: u32, why: Refusal) {
        let folio = &mut self.folios[folio as usize];
        match (kind, why) {
            (Kind::Unmap, _) => folio.last = Some(why),
            (Kind::Flush | Kind::Copy | Kind::Map, _) => folio.turned = Some(why),
            (Kind::PutBack, Refusal::Transient(_)) => {}
            (Kind::PutBack, Refusal::Final(_)) => {
                (folio.shadow, folio.dropped) = (false, true);
                (folio.turned, folio.last) = (None, Some(why));
            }
        }
    }

    fn obey(&mut self, kind: Kind, folio: u32) {
        let folio = &mut self.folios[folio as usize];
        match kind {
            Kind::Unmap => {
                (folio.home, folio.shadow, folio.seen) = (None, true, true);
                folio.copied.fill(false);
            }
            Kind::Flush => folio.seen = false,
            Kind::Copy => {
                assert!(!folio.seen, "a CPU may still write to it");
                folio.copied.fill(true);
            }
            Kind::Map => {
                assert!(folio.copied.iter().all(|&copied| copied) && !folio.seen);
                (folio.home, folio.shadow) = (Some(Content::Copy), false);
            }
            Kind::PutBack => {
                (folio.home, folio.shadow) = (Some(Content::Original), false);
                folio.last = folio.turned.take();
            }
        }
    }

    fn check_end(&self, told: &Account, passes_max: u32) {
        assert_eq!(self.out(), 0, "{:?}", self.log);
        let pages = u64::from(self.shape.folio_pages);
        let mut expected = Account::default();
        for folio in &self.folios {
            match (folio.home, folio.last) {
                (Some(Content::Copy), _) => expected.moved += pages,
                (_, Some(Refusal::Final(reason))) => expected.skip(reason, pages),
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

fn reason_of(why: Refusal) -> SkipReason {
    match why {
        Refusal::Transient(reason) | Refusal::Final(reason) => reason,
    }
}
