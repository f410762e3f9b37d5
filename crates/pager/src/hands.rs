//! The steps of one batch, as calls of userfaultfd.

use std::ops::Range;

use nodeward_migrate::{Refusal, Refused, Run, Slice};
use nodeward_model::{NodeId, SkipReason};

use crate::job::TaskControl;
use crate::page_bits::PageBits;
use crate::patience::Patience;
use crate::refusals::{self, each_refusal};
use crate::shadow::Shadow;
use crate::shop::Shop;
use crate::sys::{Advice, Mapping, Transfer, bring, bring_copy};
use crate::{PageSize, Supply};

/// The move of one chunk's pages: source, destination and options.
#[derive(Clone, Copy)]
pub struct Trip<'a> {
    /// The region.
    pub home: &'a Mapping,
    /// Offset of the chunk in the region, in bytes.
    pub start: usize,
    /// Page size of the chunk.
    pub size: PageSize,
    /// The node that all its pages are on, if known.
    pub from: Option<NodeId>,
    /// The destination node.
    pub to: NodeId,
    /// Destination pages that may be used.
    pub supply: Supply,
    /// The kernel may move the pages instead.
    pub by_kernel: bool,
    /// Maximum number of base pages in a batch.
    pub batch_pages: usize,
    /// Says when no further batch may begin, and counts what was examined.
    pub control: &'a TaskControl<'a>,
}

/// Position of a folio of a batch, in units of folios: `home` in its chunk, and `out` in the slot
/// that it is taken to.
#[derive(Clone, Copy, Debug)]
pub struct Seat {
    pub home: usize,
    pub out: usize,
}

/// Carries out the steps of one batch.
pub struct Hands<'a> {
    pub shop: &'a Shop,
    pub trip: &'a Trip<'a>,
    pub seats: &'a [Seat],
    pub refused: &'a mut Vec<Refused>,
    pub folio_bytes: usize,
}

impl Hands<'_> {
    pub fn unmap(&mut self, runs: &[Run], emptied: &mut Shadow) {
        let (uffd, passage) = (&self.shop.uffd, self.shop.passage);
        self.transfer(runs, refusals::of_unmap, |trip, at| {
            passage.take_out(uffd, (trip.home, at.home), (&mut emptied.slot, at.out))
        });
        self.return_halves(emptied);
        let occupied = |refused: &&Refused| refused.why == refusals::OCCUPIED;
        for refused in self.refused.iter().filter(occupied) {
            let start = self.seats[refused.folio as usize].out * self.folio_bytes;
            let part = start..start + self.folio_bytes;
            emptied.slot.advise(part, Advice::Discard).expect("the slot is mapped");
        }
    }

    /// Puts back pages of huge pages that were refused half-way, because the kernel had split them.
    fn return_halves(&self, emptied: &mut Shadow) {
        if self.folio_bytes > self.shop.page_bytes {
            for refused in self.refused.iter() {
                self.put_back_huge(self.seats[refused.folio as usize], emptied);
            }
        }
    }

    /// Records which folios of an unmap were refused as busy, and clears those that no longer are.
    pub fn note_busy(&self, runs: &[Run], busy: &mut PageBits) {
        let pages = self.folio_bytes / self.shop.page_bytes;
        let pages_of = |folio: u32| {
            let home = self.seats[folio as usize].home;
            home * pages..(home + 1) * pages
        };
        let tried = runs.iter().flat_map(|run| run.first..run.first + run.folios);
        tried.flat_map(pages_of).for_each(|page| busy.remove(page));
        let is_busy = |refused: &&Refused| refused.why == refusals::BUSY;
        let refused = self.refused.iter().filter(is_busy).map(|refused| refused.folio);
        refused.flat_map(pages_of).for_each(|page| busy.insert(page));
    }

    pub fn map(&mut self, runs: &[Run], ready: &mut Shadow, first: usize) {
        let (uffd, first) = (&self.shop.uffd, first * self.folio_bytes);
        self.transfer(runs, refusals::of_map, |trip, at| {
            bring(uffd, (&mut ready.slot, first + at.batch), (trip.home, at.home))
        });
    }

    pub fn map_fresh(&mut self, runs: &[Run], emptied: &Shadow) {
        let uffd = &self.shop.uffd;
        self.transfer(runs, refusals::of_map, |trip, at| {
            bring_copy(uffd, (&emptied.slot, at.out), (trip.home, at.home))
        });
    }

    /// Puts all pages back. A page that has no home any more, because the program unmapped it, is
    /// refused for good; the remaining pages of a huge page still go home.
    pub fn put_back(&mut self, runs: &[Run], emptied: &mut Shadow) {
        if self.folio_bytes == self.shop.page_bytes {
            let (uffd, passage) = (&self.shop.uffd, self.shop.passage);
            self.transfer(runs, refusals::of_put_back, |trip, at| {
                passage.put_back(uffd, (&mut emptied.slot, at.out), (trip.home, at.home))
            });
            return self.insist(emptied);
        }
        for folio in runs.iter().flat_map(|run| run.first..run.first + run.folios) {
            self.put_back_huge(self.seats[folio as usize], emptied);
        }
    }

    /// Retries base pages that could not go home for a transient reason, until each is settled.
    fn insist(&mut self, emptied: &mut Shadow) {
        let (uffd, passage, trip) = (&self.shop.uffd, self.shop.passage, self.trip);
        let (seats, bytes) = (self.seats, self.folio_bytes);
        let mut patience = Patience::default();
        while let Some(why) = self.refused.iter().find_map(not_yet) {
            patience.pause(why);
            self.refused.retain_mut(|refused| {
                let Seat { home, out } = seats[refused.folio as usize];
                let place = trip.start + home * bytes..trip.start + (home + 1) * bytes;
                let again = not_yet(refused).map(|_| {
                    passage.put_back(uffd, (&mut emptied.slot, out * bytes), (trip.home, place))
                });
                if let Some(Err(stopped)) = again {
                    refused.why = refusals::of_put_back(stopped.errno);
                }
                !matches!(again, Some(Ok(_)))
            });
        }
    }

    /// Puts the pages of a huge page back, in one call if possible. Pages that are home already are
    /// refused for good, so all may be tried until none is refused with a transient error.
    fn put_back_huge(&self, seat: Seat, emptied: &mut Shadow) {
        let (uffd, passage) = (&self.shop.uffd, self.shop.passage);
        let (trip, page_bytes) = (self.trip, self.shop.page_bytes);
        let (home, out) = (trip.start + seat.home * self.folio_bytes, seat.out * self.folio_bytes);
        let pages = self.folio_bytes / page_bytes;
        let mut patience = Patience::default();
        loop {
            let back = |part: Range<usize>| {
                let place = home + part.start..home + part.end;
                let from = (&mut emptied.slot, out + part.start);
                passage.put_back(uffd, from, (trip.home, place))
            };
            let mut again = None;
            each_refusal(pages, page_bytes, back, refusals::of_put_back, |page, why| {
                again = again.or(not_yet(&Refused { folio: page as u32, why }));
            });
            let Some(why) = again else { return };
            patience.pause(why);
        }
    }

    /// Copies slices. They begin and end at folio boundaries, because there is one copier.
    pub fn copy(&self, slices: &[Slice], emptied: &Shadow, ready: &mut Shadow, first: usize) {
        let shop = self.shop;
        let copier = if ready.is_fresh() { &shop.fresh_copier } else { &shop.copier };
        let folios = |bytes: u64| (bytes / self.folio_bytes as u64) as u32;
        let run = |slice: &Slice| Run { first: folios(slice.offset), folios: folios(slice.bytes) };
        for (index, count) in slices.iter().flat_map(|slice| stretches(self.seats, &run(slice))) {
            let part = |folio: usize| folio * self.folio_bytes..(folio + count) * self.folio_bytes;
            let from = emptied.slot.content(part(self.seats[index].out));
            copier.copy(ready.slot.content_mut(part(first + index)), from);
        }
    }

    /// Runs `call` for each stretch of the runs that is contiguous at home and in the slot, and
    /// records refusals.
    fn transfer(
        &mut self,
        runs: &[Run],
        why: refusals::Why,
        mut call: impl FnMut(&Trip<'_>, Stretch) -> Transfer,
    ) {
        let (seats, trip, folio_bytes) = (self.seats, self.trip, self.folio_bytes);
        for (first, folios) in runs.iter().flat_map(|run| stretches(seats, run)) {
            let seat = seats[first];
            let home = trip.start + seat.home * folio_bytes;
            let stretch = |part: Range<usize>| Stretch {
                home: home + part.start..home + part.end,
                out: seat.out * folio_bytes + part.start,
                batch: first * folio_bytes + part.start,
            };
            let refuse = |folio, why| {
                self.refused.push(Refused { folio: (first + folio) as u32, why });
            };
            each_refusal(folios, folio_bytes, |part| call(trip, stretch(part)), why, refuse);
        }
    }
}

/// Returns why a page is not home yet, if it may be later.
fn not_yet(refused: &Refused) -> Option<SkipReason> {
    match refused.why {
        Refusal::Transient(why) => Some(why),
        Refusal::Final(_) => None,
    }
}

/// Bytes that one call moves.
struct Stretch {
    /// Their range in the region.
    home: Range<usize>,
    /// Their offset in the slot that they are taken to.
    out: usize,
    /// Their offset in the batch.
    batch: usize,
}

/// Returns the run of all folios.
pub fn whole(seats: &[Seat]) -> Run {
    Run { first: 0, folios: seats.len() as u32 }
}

/// Splits a run into (first, number of folios) where its folios are not adjacent in their chunk.
fn stretches<'a>(seats: &'a [Seat], run: &Run) -> impl Iterator<Item = (usize, usize)> + use<'a> {
    let (mut next, end) = (run.first as usize, (run.first + run.folios) as usize);
    std::iter::from_fn(move || {
        let first = next;
        let rest = seats.get(first..end).filter(|rest| !rest.is_empty())?;
        let beside = |pair: &&[Seat]| pair[1].home == pair[0].home + 1;
        let folios = 1 + rest.windows(2).take_while(beside).count();
        next = first + folios;
        Some((first, folios))
    })
}

/// Returns how many folios (indices in the chunk) lie in the first `stretches` stretches.
pub fn within_stretches(folios: &[usize], stretches: usize) -> usize {
    let beside = |pair: &[usize]| pair[1] == pair[0] + 1;
    let ends = folios.windows(2).zip(1..).filter(|(pair, _)| !beside(pair)).map(|(_, end)| end);
    ends.chain([folios.len()]).nth(stretches - 1).unwrap_or(folios.len())
}
