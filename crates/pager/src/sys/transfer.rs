//! Pages on their way between a region and a slot.

use std::ops::Range;

use super::{Mapping, Slot, Transfer, Uffd};

/// Maps pages of a region into a slot instead, from its byte `to` on.
pub fn take_out(uffd: &Uffd, from: (&Mapping, Range<usize>), to: (&mut Slot, usize)) -> Transfer {
    let ((region, part), (slot, at)) = (from, to);
    let (source, bytes) = within(region, part);
    // SAFETY: the source is inside the region, whose content is shared memory; the destination is
    // inside the slot, which is borrowed for us alone.
    unsafe { uffd.move_pages(slot.part(at, bytes), source, bytes as u64, true, false) }
}

/// Maps pages of a slot, from its byte `from` on, into a region instead and wakes who waits there.
pub fn bring(uffd: &Uffd, from: (&mut Slot, usize), to: (&Mapping, Range<usize>)) -> Transfer {
    let ((slot, at), (region, part)) = (from, to);
    let (destination, bytes) = within(region, part);
    // SAFETY: the source is inside the slot, which is borrowed for us alone; the destination is
    // inside the region, whose content is shared memory.
    unsafe { uffd.move_pages(destination, slot.part(at, bytes), bytes as u64, false, false) }
}

/// Fills missing pages of a region with copies of those of a slot and wakes who waits there.
pub fn bring_copy(uffd: &Uffd, from: (&Slot, usize), to: (&Mapping, Range<usize>)) -> Transfer {
    let ((slot, at), (region, part)) = (from, to);
    let (destination, bytes) = within(region, part);
    // SAFETY: the source is inside the slot, which nobody writes while it is borrowed; the
    // destination is inside the region, whose content is shared memory.
    unsafe { uffd.copy(destination, slot.part(at, bytes), bytes as u64, false) }
}

/// The first address and the length of a part of a region.
fn within(region: &Mapping, part: Range<usize>) -> (u64, usize) {
    assert!(part.start <= part.end && part.end <= region.bytes(), "inside the region");
    (region.start() + part.start as u64, part.len())
}
