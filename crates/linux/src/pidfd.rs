//! Descriptors that hold a process, so that its pid cannot come to mean another one unnoticed.

use std::os::fd::OwnedFd;

use nodeward_machine::{Error, Result};
use nodeward_model::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, pidfd_open};

/// Takes hold of a process.
///
/// # Errors
/// `Gone`; `Unsupported` if the pid is that of a thread.
pub(crate) fn open_pidfd(pid: Pid) -> Result<OwnedFd> {
    let number = i32::try_from(pid.number()).ok().and_then(rustix::process::Pid::from_raw);
    let number = number.ok_or(Error::Gone(pid))?;
    pidfd_open(number, PidfdFlags::empty()).map_err(|error| match error {
        rustix::io::Errno::SRCH => Error::Gone(pid),
        // Linux 6.15 and later return NOENT.
        rustix::io::Errno::INVAL | rustix::io::Errno::NOENT => Error::Unsupported {
            action: "taking hold of a single thread",
            reason: format!("{pid} is a thread; name its process (Tgid in /proc/{pid}/status)"),
        },
        error => Error::Syscall { call: "pidfd_open", source: error.into() },
    })
}

/// Returns true if the process of a pidfd has exited; its descriptor becomes readable then.
pub(crate) fn has_exited(pidfd: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&at_once)).is_ok_and(|ready| ready > 0)
}
