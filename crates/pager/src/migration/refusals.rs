//! Maps errors of userfaultfd to refusals of single folios.

use std::ops::Range;

use nodeward_batch::FolioRefusal;
use nodeward_model::SkipReason;
use rustix::io::Errno;

use crate::sys::TransferResult;

/// Maps the error of a step to a refusal.
pub type Why = fn(Errno) -> FolioRefusal;

/// Attempts of a call that returns EAGAIN without progress, before the folio is refused.
const FRUITLESS_TRIES_MAX: u32 = 64;

/// The page is held (direct I/O, a device) or shared.
pub const BUSY: FolioRefusal = FolioRefusal::Transient(SkipReason::Pinned);

/// A page is in the slot, which should be empty: some code touched every page of the process.
pub const OCCUPIED: FolioRefusal = FolioRefusal::Transient(SkipReason::Refused);

/// Maps an error of taking pages out of sight: they are still in place.
pub fn of_unmap(errno: Errno) -> FolioRefusal {
    match errno {
        Errno::NOENT => FolioRefusal::Final(SkipReason::NotPresent),
        Errno::BUSY | Errno::AGAIN => BUSY,
        Errno::EXIST => OCCUPIED,
        Errno::NOMEM => FolioRefusal::Transient(SkipReason::NoMemory),
        // Locked, protected, or replaced by another mapping.
        Errno::INVAL => FolioRefusal::Final(SkipReason::Unmovable),
        _ => FolioRefusal::Final(SkipReason::Refused),
    }
}

/// Maps an error of mapping copies. Whatever it is, the originals go back.
pub fn of_map(errno: Errno) -> FolioRefusal {
    match errno {
        Errno::NOMEM => FolioRefusal::Transient(SkipReason::NoMemory),
        Errno::BUSY | Errno::AGAIN => FolioRefusal::Transient(SkipReason::Refused),
        // Locked or protected meanwhile.
        Errno::INVAL => FolioRefusal::Final(SkipReason::Unmovable),
        Errno::NOENT | Errno::EXIST => FolioRefusal::Final(SkipReason::Gone),
        _ => FolioRefusal::Final(SkipReason::Refused),
    }
}

/// Maps an error of putting originals back, by any method. Only a place that is no longer ours is
/// final.
pub fn of_put_back(errno: Errno) -> FolioRefusal {
    match errno {
        Errno::NOENT | Errno::INVAL | Errno::EXIST => FolioRefusal::Final(SkipReason::Gone),
        Errno::NOMEM => FolioRefusal::Transient(SkipReason::NoMemory),
        _ => FolioRefusal::Transient(SkipReason::Refused),
    }
}

/// Carries out a transfer of folios, leaving out those that are refused. `transfer` is given byte
/// ranges of the stretch. A call that is refused as a whole is repeated for its first folio alone:
/// the program may have split the mapping, and no call may span two mappings.
pub fn transfer_skipping_refused(
    folios: usize,
    folio_bytes: usize,
    mut transfer: impl FnMut(Range<usize>) -> TransferResult,
    why: Why,
    mut refuse: impl FnMut(usize, FolioRefusal),
) {
    let (end, mut done, mut idle) = (folios * folio_bytes, 0, 0);
    let mut alone = false;
    while done < end {
        let folio = done / folio_bytes;
        let until = if alone { (folio + 1) * folio_bytes } else { end };
        let Err(stopped) = transfer(done..until) else {
            (done, alone, idle) = (until, false, 0);
            continue;
        };
        done += stopped.done_bytes as usize;
        idle = if stopped.done_bytes > 0 { 0 } else { idle + 1 };
        if stopped.done_bytes > 0 || (stopped.errno == Errno::AGAIN && idle < FRUITLESS_TRIES_MAX) {
            continue;
        }
        if !alone && until - done > folio_bytes {
            alone = true;
            continue;
        }
        refuse(folio, why(stopped.errno));
        (done, alone, idle) = ((folio + 1) * folio_bytes, false, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::IncompleteTransfer;

    /// Simulates a stretch of folios of 10 bytes of which some (`bad`) are refused. Like the
    /// kernel, it first returns the progress before a bad folio, then its error. No call may span
    /// `cut`.
    fn transfer_folios(
        folios: usize,
        bad: &[(usize, Errno)],
        cut: usize,
    ) -> (Vec<(usize, FolioRefusal)>, Vec<usize>) {
        let (mut refused, mut carried) = (Vec::new(), Vec::new());
        let transfer = |part: Range<usize>| {
            let (first, end) = (part.start / 10, part.end / 10);
            if (first + 1..end).contains(&cut) {
                return Err(IncompleteTransfer { done_bytes: 0, errno: Errno::INVAL });
            }
            let stop = (first..end).find(|i| bad.iter().any(|(b, _)| b == i)).unwrap_or(end);
            carried.extend(first..stop);
            match bad.iter().find(|(index, _)| *index == stop) {
                _ if stop == end => Ok(part.len() as u64),
                Some((_, errno)) if stop == first => {
                    Err(IncompleteTransfer { done_bytes: 0, errno: *errno })
                }
                _ => Err(IncompleteTransfer {
                    done_bytes: ((stop - first) * 10) as u64,
                    errno: Errno::AGAIN,
                }),
            }
        };
        transfer_skipping_refused(folios, 10, transfer, of_unmap, |folio, why| {
            refused.push((folio, why));
        });
        (refused, carried)
    }

    #[test]
    fn what_is_refused_is_left_out_and_the_rest_is_carried() {
        let (refused, carried) = transfer_folios(6, &[(0, Errno::NOENT), (3, Errno::BUSY)], 0);
        let expected = [
            (0, FolioRefusal::Final(SkipReason::NotPresent)),
            (3, FolioRefusal::Transient(SkipReason::Pinned)),
        ];
        assert_eq!(refused, expected);
        assert_eq!(carried, [1, 2, 4, 5]);
    }

    #[test]
    fn trying_again_without_end_is_a_refusal() {
        let (refused, carried) = transfer_folios(2, &[(1, Errno::AGAIN)], 0);
        assert_eq!(refused, [(1, FolioRefusal::Transient(SkipReason::Pinned))]);
        assert_eq!(carried, [0]);
    }

    /// Goal: pages on both sides of a split are carried, although no call can carry them together.
    #[test]
    fn a_mapping_that_was_cut_is_carried_in_parts() {
        let (refused, carried) = transfer_folios(6, &[(1, Errno::NOENT)], 3);
        assert_eq!(refused, [(1, FolioRefusal::Final(SkipReason::NotPresent))]);
        assert_eq!(carried, [0, 2, 3, 4, 5]);
    }
}
