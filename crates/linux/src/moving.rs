//! The answers of move_pages(2), in the words of the contract.

use std::io;
use std::path::Path;

use nodeward_machine::{
    CallEnd, EntryStatus, Error, Life, MoveBatch, MoveOutcome, Refusal, Result,
};
use nodeward_model::{NodeId, Pid};

use crate::advice::{Attempt, Situation};
use crate::sys;

/// What a status holds before the kernel writes it: no node and no error number.
const UNWRITTEN: i32 = i32::MIN;

/// What the call says of a process that is on its way out and has let go of its memory already.
const NO_ADDRESS_SPACE: i32 = libc::EINVAL;

/// Makes the call for a batch.
pub fn move_pages(pid: Pid, batch: &MoveBatch) -> Result<MoveOutcome> {
    let nodes: Vec<i32> =
        batch.nodes().iter().map(|node| i32::try_from(node.0).unwrap_or(i32::MAX)).collect();
    let mut status = vec![UNWRITTEN; batch.len()];
    let result =
        sys::move_pages(pid.number(), batch.addresses(), &nodes, &mut status, batch.everyones);
    let end = match result {
        Ok(0) => CallEnd::Complete,
        Ok(_) => CallEnd::Aborted,
        Err(source) => call_end(pid, batch.everyones, source)?,
    };
    Ok(MoveOutcome { end, status: status.into_iter().map(entry_status).collect() })
}

/// A call that straddles the end of the process tells nothing certain.
pub fn seen_alive(mut outcome: MoveOutcome, life: Life) -> MoveOutcome {
    if life != Life::Running {
        outcome.end = CallEnd::Gone;
    }
    outcome
}

fn entry_status(code: i32) -> EntryStatus {
    if code == UNWRITTEN {
        return EntryStatus::Unwritten;
    }
    match u32::try_from(code) {
        Ok(node) => EntryStatus::On(NodeId(node)),
        Err(_) => EntryStatus::Refused(refusal(-code)),
    }
}

fn refusal(errno: i32) -> Refusal {
    match errno {
        libc::EBUSY | libc::EAGAIN => Refusal::Busy,
        libc::EACCES => Refusal::Shared,
        libc::ENOENT => Refusal::Absent,
        libc::EFAULT => Refusal::Fault,
        libc::ENOMEM => Refusal::NoMemory,
        other => Refusal::Other(other),
    }
}

/// How a failed call ended, or why nothing was attempted.
fn call_end(pid: Pid, everyones: bool, source: io::Error) -> Result<CallEnd> {
    let attempt = if everyones { Attempt::EveryonesPages } else { Attempt::Pages };
    match source.raw_os_error() {
        Some(libc::ESRCH | NO_ADDRESS_SPACE) => Ok(CallEnd::Gone),
        Some(libc::ENOMEM) => Ok(CallEnd::NoMemory),
        Some(libc::EACCES) => Ok(CallEnd::NotAllowed),
        _ => Err(denied("moving pages", attempt, pid, source)),
    }
}

/// Why a query failed.
pub fn query_error(pid: Pid, source: io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::ESRCH | NO_ADDRESS_SPACE) => Error::Gone(pid),
        _ => denied("asking where pages are", Attempt::Pages, pid, source),
    }
}

fn denied(what: &str, attempt: Attempt, pid: Pid, source: io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::EPERM | libc::ENOSYS) => {
            Situation::find(Path::new("/")).denied(format!("{what} of process {pid}"), attempt)
        }
        _ => Error::Syscall { call: "move_pages", source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a process in the middle of its exit is gone, not a call that failed.
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
