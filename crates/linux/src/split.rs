//! Splits huge pages of a process.
//!
//! No call says so. MADV_COLD of one page of a transparent huge page splits it, because its pages
//! can only be deactivated one by one (madvise_cold_or_pageout_pte_range in mm/madvise.c). That one
//! page is then thought to be used less; nothing else changes. Tried on Linux 5.10, 6.1, 6.12, 6.18
//! and 7.3.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use nodeward_machine::{Error, Result};
use nodeward_model::{Pid, Range};

use crate::confinement::{Confinement, PrivilegedAction};
use crate::sys;

/// What is tried, in errors.
const ACTION: &str = "splitting huge pages";

/// Asks for a split of the huge page in `folio`, whose pages have `page_bytes` bytes, or with an
/// empty range only whether that may be done. Does not tell whether it was split.
pub fn request_split(pid: Pid, pidfd: BorrowedFd<'_>, folio: Range, page_bytes: u64) -> Result<()> {
    // The last page: the first one names the folio, and its age is that of the whole.
    let one = match folio.bytes() {
        0 => folio,
        _ => Range::new(folio.end - page_bytes, folio.end),
    };
    sys::deactivate(pidfd, one).map_err(|source| failure(pid, source))
}

fn failure(pid: Pid, source: io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::ESRCH) => Error::Gone(pid),
        Some(libc::EPERM) => {
            let action = format!("{ACTION} of process {pid}");
            Confinement::detect(Path::new("/")).denied(action, PrivilegedAction::SharedPages)
        }
        Some(libc::ENOSYS) => {
            let reason = "this kernel has no process_madvise(2); Linux 5.10 has".to_owned();
            Error::Unsupported { action: ACTION, reason }
        }
        _ => Error::Syscall { call: "process_madvise", source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: who may not is told so, and so is who has an older kernel.
    #[test]
    fn answers_are_told_apart() {
        let of = |errno| failure(Pid::new(7).unwrap(), io::Error::from_raw_os_error(errno));
        assert!(of(libc::ESRCH).is_gone());
        assert!(of(libc::EPERM).is_permission());
        assert!(matches!(of(libc::ENOSYS), Error::Unsupported { .. }));
        assert!(matches!(of(libc::EINVAL), Error::Syscall { .. }), "locked memory, for example");
    }
}
