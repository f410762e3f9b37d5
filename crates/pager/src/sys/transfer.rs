//! Moves pages between a region and a slot.

use std::ops::Range;

use rustix::io::Errno;

use super::mapping::{AnonMapping, Slot};
use super::uffd::{IncompleteTransfer, TransferResult, Uffd};

/// The method that takes pages out of a region and brings them back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferMethod {
    /// UFFDIO_MOVE, out and in.
    Move,
    /// Out by mremap(2) with MREMAP_DONTUNMAP, in by UFFDIO_COPY. Base pages only. Neither missing
    /// pages nor pages held by a device are reported.
    Remap,
}

impl TransferMethod {
    /// Returns whether pages of a slot can be moved into a region.
    pub fn can_map_slot_pages(self) -> bool {
        self == Self::Move
    }

    /// Returns the maximum number of stretches of a batch. Each stretch that leaves by mremap is a
    /// mapping of its own until the batch ends, and a process may have 65530 mappings.
    pub fn extents_max(self) -> usize {
        match self {
            Self::Move => usize::MAX,
            Self::Remap => 4,
        }
    }

    /// Moves pages of a region into a slot, from its byte `to` on.
    pub fn unmap_to_slot(
        self,
        uffd: &Uffd,
        from: (&AnonMapping, Range<usize>),
        to: (&mut Slot, usize),
    ) -> TransferResult {
        let ((region, part), (slot, at)) = (from, to);
        let (source, bytes) = address_and_bytes(region, part);
        match self {
            // SAFETY: the source is inside the region, whose content is shared memory; the
            // destination is inside the slot, which is borrowed exclusively.
            Self::Move => unsafe {
                uffd.move_pages(slot.part(at, bytes), source, bytes as u64, true)
            },
            Self::Remap => {
                let taken = slot.remap_from(at, source, bytes);
                taken
                    .map(|()| bytes as u64)
                    .map_err(|errno| IncompleteTransfer { done_bytes: 0, errno })
            }
        }
    }

    /// Puts pages that were taken out back to where they were, and wakes the threads that wait
    /// there. A page that cannot be moved is copied, one per call.
    pub fn put_back(
        self,
        uffd: &Uffd,
        from: (&mut Slot, usize),
        to: (&AnonMapping, Range<usize>),
    ) -> TransferResult {
        let ((slot, at), (region, part)) = (from, to);
        if self == Self::Remap {
            return copy_from_slot(uffd, (slot, at), (region, part));
        }
        match map_with_retries(uffd, (slot, at), (region, part.clone())) {
            Err(IncompleteTransfer { done_bytes: 0, errno })
                if !matches!(errno, Errno::NOENT | Errno::EXIST) =>
            {
                copy_first_page(uffd, (slot, at), (region, part))
            }
            told => told,
        }
    }
}

/// Calls [`map_from_slot`] again while the kernel returns EAGAIN and nothing has moved, at most 64
/// times.
fn map_with_retries(
    uffd: &Uffd,
    from: (&mut Slot, usize),
    to: (&AnonMapping, Range<usize>),
) -> TransferResult {
    const TRIES: usize = 64;
    let ((slot, at), (region, part)) = (from, to);
    let tries = (0..TRIES).map(|_| map_from_slot(uffd, (slot, at), (region, part.clone())));
    let nothing = Err(IncompleteTransfer { done_bytes: 0, errno: Errno::AGAIN });
    tries.into_iter().find(|told| *told != nothing).unwrap_or(nothing)
}

/// Copies the first page of a part back. That requires less than moving it: the page may be locked,
/// protected, shared, merged with others (KSM) or held. A page that is not in the slot is home
/// already (ENOENT); reading it would make this thread wait for itself.
fn copy_first_page(
    uffd: &Uffd,
    from: (&Slot, usize),
    to: (&AnonMapping, Range<usize>),
) -> TransferResult {
    let ((slot, at), (region, part)) = (from, to);
    if !uffd.is_occupied(slot.address(at)) {
        return Err(IncompleteTransfer { done_bytes: 0, errno: Errno::NOENT });
    }
    let first = part.start..part.end.min(part.start + rustix::param::page_size());
    let done = copy_from_slot(uffd, (slot, at), (region, first))?;
    match done == part.len() as u64 {
        true => Ok(done),
        false => Err(IncompleteTransfer { done_bytes: done, errno: Errno::AGAIN }),
    }
}

/// Moves pages of a slot, from its byte `from` on, into a region, and wakes the threads that wait
/// there.
pub fn map_from_slot(
    uffd: &Uffd,
    from: (&mut Slot, usize),
    to: (&AnonMapping, Range<usize>),
) -> TransferResult {
    let ((slot, at), (region, part)) = (from, to);
    let (destination, bytes) = address_and_bytes(region, part);
    // SAFETY: the source is inside the slot, which is borrowed exclusively; the destination is
    // inside the region, whose content is shared memory.
    unsafe { uffd.move_pages(destination, slot.part(at, bytes), bytes as u64, false) }
}

/// Fills missing pages of a region with copies of a slot's pages, and wakes the threads that wait
/// there.
pub fn copy_from_slot(
    uffd: &Uffd,
    from: (&Slot, usize),
    to: (&AnonMapping, Range<usize>),
) -> TransferResult {
    copy_pages(uffd, from, to, false)
}

/// As [`copy_from_slot`], but the caller wakes the threads.
pub fn copy_without_wake(
    uffd: &Uffd,
    from: (&Slot, usize),
    to: (&AnonMapping, Range<usize>),
) -> TransferResult {
    copy_pages(uffd, from, to, true)
}

fn copy_pages(
    uffd: &Uffd,
    from: (&Slot, usize),
    to: (&AnonMapping, Range<usize>),
    dont_wake: bool,
) -> TransferResult {
    let ((slot, at), (region, part)) = (from, to);
    let (destination, bytes) = address_and_bytes(region, part);
    // SAFETY: the source is inside the slot, which no thread writes while it is borrowed; the
    // destination is inside the region, whose content is shared memory.
    let copy = || unsafe { uffd.copy(destination, slot.part(at, bytes), bytes as u64, dont_wake) };
    match copy() {
        Err(IncompleteTransfer { done_bytes: 0, errno: Errno::FAULT })
            if slot.make_readable(at, bytes) =>
        {
            copy()
        }
        told => told,
    }
}

/// Returns the first address and the length of a part of a region.
fn address_and_bytes(region: &AnonMapping, part: Range<usize>) -> (u64, usize) {
    assert!(part.start <= part.end && part.end <= region.bytes(), "inside the region");
    (region.start() + part.start as u64, part.len())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering::Relaxed;

    use super::super::mapping::Advice;
    use super::super::uffd::FEATURE_MOVE;
    use super::*;
    use crate::chunk::CHUNK_BYTES;

    /// Goal: with either method pages go out and come back with their content; a slot can be used
    /// again, and is unchanged.
    #[test]
    fn pages_come_back() {
        let (page, words) = (rustix::param::page_size(), rustix::param::page_size() / 8);
        for (transfer_method, features) in
            [(TransferMethod::Move, FEATURE_MOVE), (TransferMethod::Remap, 0)]
        {
            let opened = Uffd::open(true).and_then(|uffd| uffd.api(features).map(|_| uffd));
            let Ok(uffd) = opened else {
                eprintln!("skipped: {transfer_method:?} does not work here");
                continue;
            };
            let region = AnonMapping::reserve(CHUNK_BYTES, CHUNK_BYTES).unwrap();
            let slots = AnonMapping::reserve(CHUNK_BYTES, CHUNK_BYTES).unwrap();
            let pages = || region.words().chunks(words);
            region.advise(0..CHUNK_BYTES, Advice::BasePages).ok();
            slots.advise(0..CHUNK_BYTES, Advice::BasePages).ok();
            pages().zip(0..).for_each(|(page, index)| page[3].store(index, Relaxed));
            for mapping in [&region, &slots] {
                uffd.register(mapping.start(), CHUNK_BYTES as u64).unwrap();
            }
            let mut slot = AnonMapping::slots(&Arc::new(slots), CHUNK_BYTES).remove(0);
            for first in [8, 2, 8] {
                let part = first * page..(first + 4) * page;
                let out = transfer_method.unmap_to_slot(
                    &uffd,
                    (&region, part.clone()),
                    (&mut slot, 5 * page),
                );
                assert_eq!(out, Ok(4 * page as u64), "{transfer_method:?}");
                assert_eq!(slot.content(6 * page..7 * page)[24], first as u8 + 1);
                let back = transfer_method.put_back(&uffd, (&mut slot, 5 * page), (&region, part));
                assert_eq!(back, Ok(4 * page as u64), "{transfer_method:?}");
                slot.discard(0..CHUNK_BYTES).unwrap();
            }
            let kept = pages().zip(0..).all(|(page, index)| page[3].load(Relaxed) == index);
            assert!(kept && !slot.is_lost(), "{transfer_method:?}");
        }
    }

    /// Goal: mremap refuses a stretch that is not one mapping, up to Linux 6.16, and moves nothing;
    /// newer kernels take all of it. The slot can still be used.
    #[test]
    fn two_mappings_leave_together_or_not_at_all() {
        let Ok(uffd) = Uffd::open(true) else { return eprintln!("skipped: no userfaultfd here") };
        let page = rustix::param::page_size();
        let region = AnonMapping::reserve(CHUNK_BYTES, CHUNK_BYTES).unwrap();
        let mark = |at: usize| &region.words()[at / 8];
        mark(0).store(7, Relaxed);
        mark(page).store(8, Relaxed);
        region.advise(page..2 * page, Advice::DontDump).unwrap(); // a mapping of its own
        let slots = AnonMapping::reserve(CHUNK_BYTES, CHUNK_BYTES).unwrap();
        let mut slot = AnonMapping::slots(&Arc::new(slots), CHUNK_BYTES).remove(0);
        let out =
            TransferMethod::Remap.unmap_to_slot(&uffd, (&region, 0..2 * page), (&mut slot, 0));
        let (home, away) = (mark(0).load(Relaxed), slot.content(0..page)[0]);
        match out {
            Ok(bytes) => assert_eq!((bytes, home, away), (2 * page as u64, 0, 7)),
            Err(stopped) => {
                assert_eq!(stopped, IncompleteTransfer { done_bytes: 0, errno: Errno::FAULT });
                assert_eq!((home, away), (7, 0));
            }
        }
        assert!(!slot.is_lost(), "what was unmapped there was mapped again");
        slot.discard(0..CHUNK_BYTES).unwrap();
        slot.content_mut(0..CHUNK_BYTES).fill(1);
        let out =
            TransferMethod::Remap.unmap_to_slot(&uffd, (&region, page..2 * page), (&mut slot, 0));
        assert_eq!(out, Ok(page as u64));
    }

    /// Goal: a slot that may contain a foreign mapping accepts nothing any more.
    #[test]
    fn a_lost_slot_is_left_alone() {
        let page = rustix::param::page_size();
        let slots = AnonMapping::reserve(CHUNK_BYTES, CHUNK_BYTES).unwrap();
        let mut slot = AnonMapping::slots(&Arc::new(slots), CHUNK_BYTES).remove(0);
        slot.content_mut(0..page).fill(3);
        // Nothing is ever mapped at such a low address: the call fails before it touches the slot,
        // which looks the same as a foreign mapping there.
        assert_eq!(slot.remap_from(0, page as u64, page), Err(Errno::FAULT));
        assert!(slot.is_lost());
        assert_eq!(slot.remap_from(page, page as u64, page), Err(Errno::NOMEM));
        slot.discard(0..CHUNK_BYTES).unwrap();
        assert_eq!(slot.content(0..page)[9], 3);
    }
}
