//! Pages on their way between a region and a slot.

use std::ops::Range;

use rustix::io::Errno;

use super::{Mapping, Slot, Stopped, Transfer, Uffd};

/// Maps pages of a region into a slot instead, from its byte `to` on.
pub fn take_out(uffd: &Uffd, from: (&Mapping, Range<usize>), to: (&mut Slot, usize)) -> Transfer {
    let ((region, part), (slot, at)) = (from, to);
    let (source, bytes) = within(region, part);
    let to = slot.part(at, bytes);
    // SAFETY: the source is inside the region, whose content is shared memory; the destination is
    // inside the slot, which is borrowed for us alone.
    by_mapping(bytes, |bytes| unsafe { uffd.move_pages(to, source, bytes, true, false) })
}

/// Maps pages of a slot, from its byte `from` on, into a region instead and wakes who waits there.
pub fn bring(uffd: &Uffd, from: (&mut Slot, usize), to: (&Mapping, Range<usize>)) -> Transfer {
    let ((slot, at), (region, part)) = (from, to);
    let (destination, bytes) = within(region, part);
    let from = slot.part(at, bytes);
    // SAFETY: the source is inside the slot, which is borrowed for us alone; the destination is
    // inside the region, whose content is shared memory.
    by_mapping(bytes, |bytes| unsafe { uffd.move_pages(destination, from, bytes, false, false) })
}

/// Fills missing pages of a region with copies of those of a slot and wakes who waits there.
pub fn bring_copy(uffd: &Uffd, from: (&Slot, usize), to: (&Mapping, Range<usize>)) -> Transfer {
    let ((slot, at), (region, part)) = (from, to);
    let (destination, bytes) = within(region, part);
    let from = slot.part(at, bytes);
    // SAFETY: the source is inside the slot, which nobody writes while it is borrowed; the
    // destination is inside the region, whose content is shared memory.
    by_mapping(bytes, |bytes| unsafe { uffd.copy(destination, from, bytes, false) })
}

/// The kernel refuses ranges that lie in more than one mapping, as they do where the program has
/// changed a part of the region, by EINVAL (moves) or ENOENT (copies). So a range that is refused
/// in this way is asked for again, its first page alone.
fn by_mapping(bytes: usize, call: impl Fn(u64) -> Transfer) -> Transfer {
    let (all, page) = (bytes as u64, rustix::param::page_size() as u64);
    match call(all) {
        Err(Stopped { done: 0, errno: Errno::INVAL | Errno::NOENT }) if all > page => {
            let first = call(page)?;
            Err(Stopped { done: first, errno: Errno::AGAIN })
        }
        other => other,
    }
}

/// The first address and the length of a part of a region.
fn within(region: &Mapping, part: Range<usize>) -> (u64, usize) {
    assert!(part.start <= part.end && part.end <= region.bytes(), "inside the region");
    (region.start() + part.start as u64, part.len())
}
