//! What the answers of userfaultfd mean for single folios.

use nodeward_migrate::Refusal;
use nodeward_model::SkipReason;
use rustix::io::Errno;

use crate::sys::Transfer;

/// What an error of a step means.
pub type Why = fn(Errno) -> Refusal;

/// How often a call that is told to try again may get nowhere before the folio is refused.
const IDLE_TRIES: u32 = 64;

/// Somebody holds the page (direct I/O, a device), or shares it.
pub const BUSY: Refusal = Refusal::Transient(SkipReason::Pinned);

/// An error while pages are taken out of sight: they are still in place.
pub fn of_unmap(errno: Errno) -> Refusal {
    match errno {
        Errno::NOENT => Refusal::Final(SkipReason::NotPresent),
        Errno::BUSY | Errno::AGAIN => BUSY,
        Errno::NOMEM => Refusal::Transient(SkipReason::NoMemory),
        // Locked, protected, replaced by another mapping.
        Errno::INVAL => Refusal::Final(SkipReason::Unmovable),
        _ => Refusal::Final(SkipReason::Refused),
    }
}

/// An error while copies are mapped: they go back, whatever it is.
pub fn of_map(errno: Errno) -> Refusal {
    match errno {
        Errno::NOMEM => Refusal::Transient(SkipReason::NoMemory),
        Errno::BUSY | Errno::AGAIN => Refusal::Transient(SkipReason::Refused),
        Errno::NOENT | Errno::INVAL | Errno::EXIST => Refusal::Final(SkipReason::Gone),
        _ => Refusal::Final(SkipReason::Refused),
    }
}

/// An error while originals are put back. Only a place that is no longer ours ends that.
pub fn of_put_back(errno: Errno) -> Refusal {
    match errno {
        Errno::NOENT | Errno::INVAL | Errno::EXIST => Refusal::Final(SkipReason::Gone),
        _ => Refusal::Transient(SkipReason::Refused),
    }
}

/// Carries a stretch of folios, leaving out those that are refused. `transfer` does the stretch
/// from a byte on.
pub fn each_refusal(
    folios: usize,
    folio_bytes: usize,
    mut transfer: impl FnMut(usize) -> Transfer,
    why: Why,
    mut refuse: impl FnMut(usize, Refusal),
) {
    let (mut done, mut idle) = (0, 0);
    while done < folios * folio_bytes {
        let Err(stopped) = transfer(done) else { return };
        done += stopped.done as usize;
        idle = if stopped.done > 0 { 0 } else { idle + 1 };
        let again = stopped.done > 0 || (stopped.errno == Errno::AGAIN && idle < IDLE_TRIES);
        if !again {
            let folio = done / folio_bytes;
            refuse(folio, why(stopped.errno));
            done = (folio + 1) * folio_bytes;
            idle = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Stopped;

    /// A stretch of folios of 10 bytes in which some are refused, as the kernel tells it: what
    /// came before counts first, then the error is told.
    fn carry(folios: usize, bad: &[(usize, Errno)]) -> (Vec<(usize, Refusal)>, Vec<usize>) {
        let (mut refused, mut carried) = (Vec::new(), Vec::new());
        let transfer = |from: usize| {
            let first = from / 10;
            let stop = (first..folios).find(|i| bad.iter().any(|(b, _)| b == i));
            carried.extend(first..stop.unwrap_or(folios));
            match stop {
                None => Ok(((folios - first) * 10) as u64),
                Some(i) if i > first => {
                    Err(Stopped { done: ((i - first) * 10) as u64, errno: Errno::AGAIN })
                }
                Some(i) => {
                    let errno = bad.iter().find(|(b, _)| *b == i).unwrap().1;
                    Err(Stopped { done: 0, errno })
                }
            }
        };
        each_refusal(folios, 10, transfer, of_unmap, |folio, why| refused.push((folio, why)));
        (refused, carried)
    }

    #[test]
    fn what_is_refused_is_left_out_and_the_rest_is_carried() {
        let (refused, carried) = carry(6, &[(0, Errno::NOENT), (3, Errno::BUSY)]);
        let expected = [
            (0, Refusal::Final(SkipReason::NotPresent)),
            (3, Refusal::Transient(SkipReason::Pinned)),
        ];
        assert_eq!(refused, expected);
        assert_eq!(carried, [1, 2, 4, 5]);
    }

    #[test]
    fn trying_again_without_end_is_a_refusal() {
        let (refused, carried) = carry(2, &[(1, Errno::AGAIN)]);
        assert_eq!(refused, [(1, Refusal::Transient(SkipReason::Pinned))]);
        assert_eq!(carried, [0]);
    }
}
