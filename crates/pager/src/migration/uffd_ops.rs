//! The steps of one batch, as calls of userfaultfd.

use std::ops::Range;

use nodeward_batch::{CopySlice, FolioRefusal, FolioRun, RefusedFolio};
use nodeward_model::SkipReason;

use super::chunk_move::ChunkMove;
use super::put_back_retry::PutBackRetry;
use super::refusals::{self, transfer_skipping_refused};
use crate::chunk::CHUNK_BYTES;
use crate::context::PagerContext;
use crate::page_bits::PageBits;
use crate::pool::ShadowSlot;
use crate::sys::{Advice, TransferResult, copy_from_slot, map_from_slot};

/// The two places of a folio of a batch.
#[derive(Clone, Copy, Debug)]
pub struct FolioSlot {
    /// Its index in its chunk.
    pub chunk_index: usize,
    /// Its index in the slot that it is taken to.
    pub slot_index: usize,
}

/// Carries out the steps of one batch.
pub struct UffdOps<'a> {
    pub context: &'a PagerContext,
    pub chunk_move: &'a ChunkMove<'a>,
    pub folio_slots: &'a [FolioSlot],
    pub refused: &'a mut Vec<RefusedFolio>,
    pub folio_bytes: usize,
}

impl UffdOps<'_> {
    pub fn unmap(&mut self, runs: &[FolioRun], emptied: &mut ShadowSlot) {
        let (uffd, transfer_method) = (&self.context.uffd, self.context.transfer_method);
        self.transfer_extents(runs, refusals::of_unmap, |chunk_move, at| {
            transfer_method.unmap_to_slot(
                uffd,
                (chunk_move.region, at.region_bytes),
                (&mut emptied.slot, at.slot_offset),
            )
        });
        self.return_split_pages(emptied);
        let occupied = |refused: &&RefusedFolio| refused.refusal == refusals::OCCUPIED;
        for refused in self.refused.iter().filter(occupied) {
            let start = self.folio_slots[refused.folio as usize].slot_index * self.folio_bytes;
            let part = start..start + self.folio_bytes;
            emptied.slot.advise(part, Advice::Discard).expect("the slot is mapped");
        }
    }

    /// Puts back pages of huge pages that were refused half-way, because the kernel had split them.
    fn return_split_pages(&self, emptied: &mut ShadowSlot) {
        if self.folio_bytes > self.context.page_bytes {
            for refused in self.refused.iter() {
                self.put_back_huge(self.folio_slots[refused.folio as usize], emptied);
            }
        }
    }

    /// Records which folios of an unmap were refused as busy, and clears those that no longer are.
    pub fn note_busy(&self, runs: &[FolioRun], busy: &mut PageBits) {
        let pages = self.folio_bytes / self.context.page_bytes;
        let pages_of = |folio: u32| {
            let home = self.folio_slots[folio as usize].chunk_index;
            home * pages..(home + 1) * pages
        };
        let tried = runs.iter().flat_map(|run| run.first..run.first + run.folios);
        tried.flat_map(pages_of).for_each(|page| busy.remove(page));
        let is_busy = |refused: &&RefusedFolio| refused.refusal == refusals::BUSY;
        let refused = self.refused.iter().filter(is_busy).map(|refused| refused.folio);
        refused.flat_map(pages_of).for_each(|page| busy.insert(page));
    }

    pub fn map(&mut self, runs: &[FolioRun], ready: &mut ShadowSlot, first: usize) {
        let (uffd, first) = (&self.context.uffd, first * self.folio_bytes);
        self.transfer_extents(runs, refusals::of_map, |chunk_move, at| {
            map_from_slot(
                uffd,
                (&mut ready.slot, first + at.batch_offset),
                (chunk_move.region, at.region_bytes),
            )
        });
    }

    /// Maps a huge page in the place of all base pages of the chunk. If that is refused, its parts
    /// are mapped as base pages, one after the other.
    pub fn map_huge(&mut self, runs: &[FolioRun], ready: &mut ShadowSlot) {
        let folios: u32 = runs.iter().map(|run| run.folios).sum();
        if folios as usize == self.folio_slots.len() {
            // Nothing of the chunk is mapped, so nothing but its empty page table is freed.
            let start = self.chunk_move.chunk_offset;
            self.chunk_move.region.advise(start..start + CHUNK_BYTES, Advice::Discard).ok();
        }
        self.map(runs, ready, 0);
    }

    /// Returns whether slices are all pages of the chunk.
    pub fn are_whole_chunk(&self, slices: &[CopySlice]) -> bool {
        slices.iter().map(|slice| slice.bytes).sum::<u64>() == CHUNK_BYTES as u64
    }

    pub fn map_fresh(&mut self, runs: &[FolioRun], emptied: &ShadowSlot) {
        let uffd = &self.context.uffd;
        self.transfer_extents(runs, refusals::of_map, |chunk_move, at| {
            copy_from_slot(
                uffd,
                (&emptied.slot, at.slot_offset),
                (chunk_move.region, at.region_bytes),
            )
        });
    }

    /// Puts all pages back. A page that has no home any more, because the program unmapped it, is
    /// refused for good; the remaining pages of a huge page still go home.
    pub fn put_back(&mut self, runs: &[FolioRun], emptied: &mut ShadowSlot) {
        if self.folio_bytes == self.context.page_bytes {
            let (uffd, transfer_method) = (&self.context.uffd, self.context.transfer_method);
            self.transfer_extents(runs, refusals::of_put_back, |chunk_move, at| {
                transfer_method.put_back(
                    uffd,
                    (&mut emptied.slot, at.slot_offset),
                    (chunk_move.region, at.region_bytes),
                )
            });
            return self.put_back_refused(emptied);
        }
        for folio in runs.iter().flat_map(|run| run.first..run.first + run.folios) {
            self.put_back_huge(self.folio_slots[folio as usize], emptied);
        }
    }

    /// Retries base pages that could not go home for a transient reason, until each is settled.
    fn put_back_refused(&mut self, emptied: &mut ShadowSlot) {
        let (uffd, transfer_method, chunk_move) =
            (&self.context.uffd, self.context.transfer_method, self.chunk_move);
        let (folio_slots, bytes) = (self.folio_slots, self.folio_bytes);
        let mut retry = PutBackRetry::default();
        while let Some(why) = self.refused.iter().find_map(not_yet) {
            retry.wait_before_retry(why);
            self.refused.retain_mut(|refused| {
                let FolioSlot { chunk_index: home, slot_index: out } =
                    folio_slots[refused.folio as usize];
                let place = chunk_move.chunk_offset + home * bytes
                    ..chunk_move.chunk_offset + (home + 1) * bytes;
                let again = not_yet(refused).map(|_| {
                    transfer_method.put_back(
                        uffd,
                        (&mut emptied.slot, out * bytes),
                        (chunk_move.region, place),
                    )
                });
                if let Some(Err(stopped)) = again {
                    refused.refusal = refusals::of_put_back(stopped.errno);
                }
                !matches!(again, Some(Ok(_)))
            });
        }
    }

    /// Puts the pages of a huge page back, in one call if possible. Pages that are home already are
    /// refused for good, so all may be tried until none is refused with a transient error.
    fn put_back_huge(&self, folio_slot: FolioSlot, emptied: &mut ShadowSlot) {
        let (uffd, transfer_method) = (&self.context.uffd, self.context.transfer_method);
        let (chunk_move, page_bytes) = (self.chunk_move, self.context.page_bytes);
        let (home, out) = (
            chunk_move.chunk_offset + folio_slot.chunk_index * self.folio_bytes,
            folio_slot.slot_index * self.folio_bytes,
        );
        let pages = self.folio_bytes / page_bytes;
        let mut retry = PutBackRetry::default();
        loop {
            let back = |part: Range<usize>| {
                let place = home + part.start..home + part.end;
                let from = (&mut emptied.slot, out + part.start);
                transfer_method.put_back(uffd, from, (chunk_move.region, place))
            };
            let mut again = None;
            transfer_skipping_refused(
                pages,
                page_bytes,
                back,
                refusals::of_put_back,
                |page, why| {
                    again = again.or(not_yet(&RefusedFolio { folio: page as u32, refusal: why }));
                },
            );
            let Some(why) = again else { return };
            retry.wait_before_retry(why);
        }
    }

    /// Copies slices. They begin and end at folio boundaries, because there is one copier.
    pub fn copy(
        &self,
        slices: &[CopySlice],
        emptied: &ShadowSlot,
        ready: &mut ShadowSlot,
        first: usize,
    ) {
        let context = self.context;
        let copier = if ready.is_fresh() { &context.fresh_copier } else { &context.copier };
        let folios = |bytes: u64| (bytes / self.folio_bytes as u64) as u32;
        let run = |slice: &CopySlice| FolioRun {
            first: folios(slice.offset),
            folios: folios(slice.bytes),
        };
        for (index, count) in slices.iter().flat_map(|slice| extents(self.folio_slots, &run(slice)))
        {
            let part = |folio: usize| folio * self.folio_bytes..(folio + count) * self.folio_bytes;
            let from = emptied.slot.content(part(self.folio_slots[index].slot_index));
            copier.copy(ready.slot.content_mut(part(first + index)), from);
        }
    }

    /// Runs `call` for each stretch of the runs that is contiguous at home and in the slot, and
    /// records refusals.
    fn transfer_extents(
        &mut self,
        runs: &[FolioRun],
        why: refusals::Why,
        mut call: impl FnMut(&ChunkMove<'_>, Extent) -> TransferResult,
    ) {
        let (folio_slots, chunk_move, folio_bytes) =
            (self.folio_slots, self.chunk_move, self.folio_bytes);
        for (first, folios) in runs.iter().flat_map(|run| extents(folio_slots, run)) {
            let folio_slot = folio_slots[first];
            let home = chunk_move.chunk_offset + folio_slot.chunk_index * folio_bytes;
            let stretch = |part: Range<usize>| Extent {
                region_bytes: home + part.start..home + part.end,
                slot_offset: folio_slot.slot_index * folio_bytes + part.start,
                batch_offset: first * folio_bytes + part.start,
            };
            let refuse = |folio, why| {
                self.refused.push(RefusedFolio { folio: (first + folio) as u32, refusal: why });
            };
            transfer_skipping_refused(
                folios,
                folio_bytes,
                |part| call(chunk_move, stretch(part)),
                why,
                refuse,
            );
        }
    }
}

/// Returns why a page is not home yet, if it may be later.
fn not_yet(refused: &RefusedFolio) -> Option<SkipReason> {
    match refused.refusal {
        FolioRefusal::Transient(why) => Some(why),
        FolioRefusal::Final(_) => None,
    }
}

/// Bytes that one call moves.
struct Extent {
    /// Their range in the region.
    region_bytes: Range<usize>,
    /// Their offset in the slot that they are taken to.
    slot_offset: usize,
    /// Their offset in the batch.
    batch_offset: usize,
}

/// Returns the run of all folios.
pub fn whole(folio_slots: &[FolioSlot]) -> FolioRun {
    FolioRun { first: 0, folios: folio_slots.len() as u32 }
}

/// Splits a run into (first, number of folios) where its folios are not adjacent in their chunk.
fn extents<'a>(
    folio_slots: &'a [FolioSlot],
    run: &FolioRun,
) -> impl Iterator<Item = (usize, usize)> + use<'a> {
    let (mut next, end) = (run.first as usize, (run.first + run.folios) as usize);
    std::iter::from_fn(move || {
        let first = next;
        let rest = folio_slots.get(first..end).filter(|rest| !rest.is_empty())?;
        let beside = |pair: &&[FolioSlot]| pair[1].chunk_index == pair[0].chunk_index + 1;
        let folios = 1 + rest.windows(2).take_while(beside).count();
        next = first + folios;
        Some((first, folios))
    })
}

/// Returns how many folios (indices in the chunk) lie in the first `stretches` stretches.
pub fn folios_within_extents(folios: &[usize], stretches: usize) -> usize {
    let beside = |pair: &[usize]| pair[1] == pair[0] + 1;
    let ends = folios.windows(2).zip(1..).filter(|(pair, _)| !beside(pair)).map(|(_, end)| end);
    ends.chain([folios.len()]).nth(stretches - 1).unwrap_or(folios.len())
}
