//! Translates the results of move_pages(2) and migrate_pages(2) to those of the contract.

use std::io;
use std::path::Path;

use nodeward_machine::{
    CallEnd, EntryRefusal, EntryStatus, Error, Liveness, MovePagesCall, MovePagesOutcome, Result,
};
use nodeward_model::{NodeId, Pid};

use crate::confinement::{Confinement, PrivilegedAction};
use crate::sys;

/// The value of a status before the kernel writes it: neither a node nor an error number.
const UNWRITTEN: i32 = i32::MIN;

/// The error of the call for an exiting process that has already released its memory.
const NO_ADDRESS_SPACE: i32 = libc::EINVAL;

/// Calls move_pages(2) for a batch.
pub fn move_pages(pid: Pid, batch: &MovePagesCall) -> Result<MovePagesOutcome> {
    let nodes: Vec<i32> =
        batch.nodes().iter().map(|node| i32::try_from(node.0).unwrap_or(i32::MAX)).collect();
    let mut status = vec![UNWRITTEN; batch.len()];
    let result =
        sys::move_pages(pid.number(), batch.addresses(), &nodes, &mut status, batch.move_shared);
    let end = match result {
        Ok(left) => end_of_call(left, &status),
        Err(source) => call_end(pid, batch.move_shared, source)?,
    };
    Ok(MovePagesOutcome { end, status: status.into_iter().map(entry_status).collect() })
}

/// Calls migrate_pages(2), which walks all page tables of a process.
pub fn migrate_pages(pid: Pid, from: NodeId, to: NodeId) -> Result<CallEnd> {
    match sys::migrate_pages(pid.number(), from.0, to.0) {
        Ok(0) => Ok(CallEnd::Complete),
        Ok(_) => Ok(CallEnd::Aborted),
        Err(source) => match source.raw_os_error() {
            Some(libc::ESRCH) => Ok(CallEnd::Gone),
            Some(libc::ENOMEM) => Ok(CallEnd::NoMemory),
            // The kernel has no other answer for a destination that the cpuset forbids.
            Some(libc::EINVAL) => Ok(CallEnd::NotAllowed),
            _ => Err(denied("migrate_pages", "moving pages", PrivilegedAction::Pages, pid, source)),
        },
    }
}

/// Changes the end to `Gone` if the process no longer runs: the result of a call that spans the
/// exit is not reliable.
pub fn gone_unless_running(mut outcome: MovePagesOutcome, life: Liveness) -> MovePagesOutcome {
    if life != Liveness::Running {
        outcome.end = CallEnd::Gone;
    }
    outcome
}

/// Returns the end of a call that left `left` pages. Linux 5.10 counts one too few where pages of
/// the last run stay, 6.1 does not: a call for one held page returns 0, as if it had moved. But
/// each entry of a call that is complete has a status.
fn end_of_call(left: u64, status: &[i32]) -> CallEnd {
    match left == 0 && !status.contains(&UNWRITTEN) {
        true => CallEnd::Complete,
        false => CallEnd::Aborted,
    }
}

fn entry_status(code: i32) -> EntryStatus {
    if code == UNWRITTEN {
        return EntryStatus::Unwritten;
    }
    match u32::try_from(code) {
        Ok(node) => EntryStatus::On(NodeId(node)),
        Err(_) => EntryStatus::Refused(entry_refusal(-code)),
    }
}

fn entry_refusal(errno: i32) -> EntryRefusal {
    match errno {
        libc::EBUSY | libc::EAGAIN => EntryRefusal::Busy,
        libc::EACCES => EntryRefusal::Shared,
        libc::ENOENT => EntryRefusal::Absent,
        libc::EFAULT => EntryRefusal::Fault,
        libc::ENOMEM => EntryRefusal::NoMemory,
        other => EntryRefusal::Other(other),
    }
}

/// Returns the end of a failed call, or the error if nothing was attempted.
fn call_end(pid: Pid, move_shared: bool, source: io::Error) -> Result<CallEnd> {
    let attempt = if move_shared { PrivilegedAction::SharedPages } else { PrivilegedAction::Pages };
    match source.raw_os_error() {
        Some(libc::ESRCH | NO_ADDRESS_SPACE) => Ok(CallEnd::Gone),
        Some(libc::ENOMEM) => Ok(CallEnd::NoMemory),
        Some(libc::EACCES) => Ok(CallEnd::NotAllowed),
        _ => Err(denied("move_pages", "moving pages", attempt, pid, source)),
    }
}

/// Returns the error of a failed query.
pub fn query_error(pid: Pid, source: io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::ESRCH | NO_ADDRESS_SPACE) => Error::Gone(pid),
        _ => denied("move_pages", "asking where pages are", PrivilegedAction::Pages, pid, source),
    }
}

fn denied(
    call: &'static str,
    what: &str,
    attempt: PrivilegedAction,
    pid: Pid,
    source: io::Error,
) -> Error {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::ENOSYS) => {
            Confinement::detect(Path::new("/")).denied(format!("{what} of process {pid}"), attempt)
        }
        _ => Error::Syscall { call, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a call is complete if every entry has a status, whatever the kernel returns.
    #[test]
    fn a_call_that_left_a_page_is_not_complete() {
        assert_eq!(end_of_call(0, &[0, 1, -libc::EBUSY]), CallEnd::Complete);
        assert_eq!(end_of_call(1, &[0, UNWRITTEN]), CallEnd::Aborted);
        assert_eq!(end_of_call(0, &[UNWRITTEN]), CallEnd::Aborted, "one held page, Linux 5.10");
        assert_eq!(end_of_call(0, &[]), CallEnd::Complete);
    }

    /// Goal: a process that is exiting is reported as gone, not as a failed call.
    #[test]
    fn no_process_and_no_memory_are_both_gone() {
        let pid = Pid::new(7).unwrap();
        for errno in [libc::ESRCH, libc::EINVAL] {
            let error = || io::Error::from_raw_os_error(errno);
            assert!(query_error(pid, error()).is_gone());
            assert_eq!(call_end(pid, false, error()).unwrap(), CallEnd::Gone);
        }
        let other = io::Error::from_raw_os_error(libc::ENODEV);
        assert!(call_end(pid, false, other).is_err());
    }
}
