//! Translates the results of process_madvise(2) with MADV_COLLAPSE to those of the contract.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use nodeward_machine::{CollapseOutcome, CollapseRefusal, Error, Result};
use nodeward_model::{Pid, Range};

use crate::confinement::{Confinement, PrivilegedAction};
use crate::sys;

/// What is tried, in errors.
const ACTION: &str = "collapsing pages into huge pages";

/// Collapses a part of a process, or with an empty one only checks that it may be done.
pub fn collapse(pid: Pid, pidfd: BorrowedFd<'_>, part: Range) -> Result<CollapseOutcome> {
    match sys::collapse(pidfd, part) {
        Ok(()) => Ok(CollapseOutcome::Collapsed),
        Err(source) => outcome(pid, part, source),
    }
}

/// Returns the outcome of a failed call; the kernel translates a dozen causes to four numbers
/// (madvise_collapse_errno in mm/khugepaged.c).
fn outcome(pid: Pid, part: Range, source: io::Error) -> Result<CollapseOutcome> {
    let refusal = match source.raw_os_error() {
        Some(libc::ESRCH) => return Err(Error::Gone(pid)),
        Some(libc::EPERM) => {
            let action = format!("{ACTION} of process {pid}");
            let attempt = PrivilegedAction::SharedPages;
            return Err(Confinement::detect(Path::new("/")).denied(action, attempt));
        }
        // A kernel that does not know the call, or this use of it.
        Some(libc::ENOSYS | libc::EINVAL) if part.bytes() == 0 => {
            let reason = "this kernel has no MADV_COLLAPSE; Linux 6.1 has".to_owned();
            return Err(Error::Unsupported { action: ACTION, reason });
        }
        Some(libc::ENOMEM) => CollapseRefusal::NoHugePage,
        Some(libc::EBUSY) => CollapseRefusal::MemoryLimit,
        Some(libc::EAGAIN) => CollapseRefusal::Held,
        Some(libc::EINVAL) => CollapseRefusal::NotEligible,
        _ => return Err(Error::Syscall { call: "process_madvise", source }),
    };
    Ok(CollapseOutcome::Refused(refusal))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each answer of the kernel is told as what it means; the same number means another
    /// thing where only the call is tried.
    #[test]
    fn answers_are_told_apart() {
        let (pid, part) = (Pid::new(7).unwrap(), Range::new(0x20_0000, 0x40_0000));
        let of = |errno, part| outcome(pid, part, io::Error::from_raw_os_error(errno));
        for (errno, refusal) in [
            (libc::ENOMEM, CollapseRefusal::NoHugePage),
            (libc::EBUSY, CollapseRefusal::MemoryLimit),
            (libc::EAGAIN, CollapseRefusal::Held),
            (libc::EINVAL, CollapseRefusal::NotEligible),
        ] {
            assert_eq!(of(errno, part).unwrap(), CollapseOutcome::Refused(refusal));
        }
        assert!(of(libc::ESRCH, part).unwrap_err().is_gone());
        assert!(of(libc::EPERM, Range::new(0, 0)).unwrap_err().is_permission());
        for errno in [libc::ENOSYS, libc::EINVAL] {
            let error = of(errno, Range::new(0, 0)).unwrap_err();
            assert!(matches!(error, Error::Unsupported { .. }), "{error}");
        }
    }
}
