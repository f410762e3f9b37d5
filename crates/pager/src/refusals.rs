//! Maps errors of userfaultfd to refusals of single folios.

use std::ops::Range;

use nodeward_migrate::Refusal;
use nodeward_model::SkipReason;
use rustix::io::Errno;

use crate::sys::Transfer;

/// Maps the error of a step to a refusal.
pub type Why = fn(Errno) -> Refusal;

/// Attempts of a call that returns EAGAIN without progress, before the folio is refused.
const IDLE_TRIES: u32 = 64;

/// The page is held (direct I/O, a device) or shared.
pub const BUSY: Refusal = Refusal::Transient(SkipReason::Pinned);

/// A page is in the slot, which should be empty: some code touched every page of the process.
pub const OCCUPIED: Refusal = Refusal::Transient(SkipReason::Refused);

/// Maps an error of taking pages out of sight: they are still in place.
pub fn of_unmap(errno: Errno) -> Refusal {
    match errno {
        Errno::NOENT => Refusal::Final(SkipReason::NotPresent),
        Errno::BUSY | Errno::AGAIN => BUSY,
        Errno::EXIST => OCCUPIED,
        Errno::NOMEM => Refusal::Transient(SkipReason::NoMemory),
        // Locked, protected, or replaced by another mapping.
        Errno::INVAL => Refusal::Final(SkipReason::Unmovable),
        _ => Refusal::Final(SkipReason::Refused),
    }
}

/// Maps an error of mapping copies. Whatever it is, the originals go back.
pub fn of_map(errno: Errno) -> Refusal {
    match errno {
        Errno::NOMEM => Refusal::Transient(SkipReason::NoMemory),
        Errno::BUSY | Errno::AGAIN => Refusal::Transient(SkipReason::Refused),
        // Locked or protected meanwhile.
        Errno::INVAL => Refusal::Final(SkipReason::Unmovable),
        Errno::NOENT | Errno::EXIST => Refusal::Final(SkipReason::Gone),
        _ => Refusal::Final(SkipReason::Refused),
    }
}

/// Maps an error of putting originals back, by any method. Only a place that is no longer ours is
/// final.
pub fn of_put_back(errno: Errno) -> Refusal {
    match errno {
        Errno::NOENT | Errno::INVAL | Errno::EXIST => Refusal::Final(SkipReason::Gone),
        Errno::NOMEM => Refusal::Transient(SkipReason::NoMemory),
        _ => Refusal::Transient(SkipReason::Refused),
    }
}

/// Carries out a transfer of folios, leaving out those that are refused. `transfer` is given byte
/// ranges of the stretch. A call that is refused as a whole is repeated for its first folio alone:
/// the program may have split the mapping, and no call may span two mappings.
pub fn each_refusal(
    folios: usize,
    folio_bytes: usize,
    mut transfer: impl FnMut(Range<usize>) -> Transfer,
    why: Why,
    mut refuse: impl FnMut(usize, Refusal),
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
        done += stopped.done as usize;
        idle = if stopped.done > 0 { 0 } else { idle + 1 };
        if stopped.done > 0 || (stopped.errno == Errno::AGAIN && idle < IDLE_TRIES) {
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
    use crate::sys::Stopped;

    /// Simulates a stretch of folios of 10 bytes of which some (`bad`) are refused. Like the
    /// kernel, it first returns the progress before a bad folio, then its error. No call may span
    /// `cut`.
    fn carry(
        folios: usize,
        bad: &[(usize, Errno)],
        cut: usize,
    ) -> (Vec<(usize, Refusal)>, Vec<usize>) {
        let (mut refused, mut carried) = (Vec::new(), Vec::new());
        let transfer = |part: Range<usize>| {
            let (first, end) = (part.start / 10, part.end / 10);
            if (first + 1..end).contains(&cut) {
                return Err(Stopped { done: 0, errno: Errno::INVAL });
            }
            let stop = (first..end).find(|i| bad.iter().any(|(b, _)| b == i)).unwrap_or(end);
            carried.extend(first..stop);
            match bad.iter().find(|(index, _)| *index == stop) {
                _ if stop == end => Ok(part.len() as u64),
                Some((_, errno)) if stop == first => Err(Stopped { done: 0, errno: *errno }),
                _ => Err(Stopped { done: ((stop - first) * 10) as u64, errno: Errno::AGAIN }),
            }
        };
        each_refusal(folios, 10, transfer, of_unmap, |folio, why| refused.push((folio, why)));
        (refused, carried)
    }

    #[test]
    fn what_is_refused_is_left_out_and_the_rest_is_carried() {
        let (refused, carried) = carry(6, &[(0, Errno::NOENT), (3, Errno::BUSY)], 0);
        let expected = [
            (0, Refusal::Final(SkipReason::NotPresent)),
            (3, Refusal::Transient(SkipReason::Pinned)),
        ];
        assert_eq!(refused, expected);
        assert_eq!(carried, [1, 2, 4, 5]);
    }

    #[test]
    fn trying_again_without_end_is_a_refusal() {
        let (refused, carried) = carry(2, &[(1, Errno::AGAIN)], 0);
        assert_eq!(refused, [(1, Refusal::Transient(SkipReason::Pinned))]);
        assert_eq!(carried, [0]);
    }

    /// Goal: pages on both sides of a split are carried, although no call can carry them together.
    #[test]
    fn a_mapping_that_was_cut_is_carried_in_parts() {
        let (refused, carried) = carry(6, &[(1, Errno::NOENT)], 3);
        assert_eq!(refused, [(1, Refusal::Final(SkipReason::NotPresent))]);
        assert_eq!(carried, [0, 2, 3, 4, 5]);
    }
}
