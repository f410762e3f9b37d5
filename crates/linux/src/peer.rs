//! The process at the other end of a Unix socket, as the kernel knows it; sockets from outside.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nodeward_model::Pid;
use rustix::io::Errno;

use crate::held_pid::HeldPid;
use crate::pidfd::open_pidfd;
use crate::sys;

/// The process that connected a socket, and its effective ids at that moment.
#[derive(Debug)]
pub struct Peer {
    /// The process, held.
    pub process: HeldPid,
    /// Its user id, in our user namespace.
    pub user: u32,
    /// Its group id, in our user namespace.
    pub group: u32,
}

impl Peer {
    /// Returns the peer of a connected socket.
    ///
    /// Before Linux 6.5 the kernel gives its pid only, which may belong to another process by now
    /// if the peer has ended since; [`Peer::process`] is that one then.
    ///
    /// # Errors
    /// If it has ended, or is in a pid namespace that is not below ours.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let socket = socket.as_fd();
        let (pid, user, group) = sys::peer_ids(socket)?;
        let pid = Pid::new(pid.cast_unsigned()).map_err(|_| Errno::SRCH)?;
        let process = hold(socket, pid)?;
        Ok(Self { process, user, group })
    }
}

/// Returns the effective user id of the process that connected a socket. Cost: one system call.
///
/// # Errors
/// Those of getsockopt(2).
pub fn user_of(socket: impl AsFd) -> io::Result<u32> {
    sys::peer_ids(socket.as_fd()).map(|(_, user, _)| user)
}

/// Returns a duplicate of a descriptor that this process was started with, by its number.
///
/// # Errors
/// If it was started without.
pub fn inherited(number: i32) -> io::Result<OwnedFd> {
    sys::duplicate(number)
}

fn hold(socket: BorrowedFd<'_>, pid: Pid) -> io::Result<HeldPid> {
    match sys::peer_pidfd(socket) {
        Ok(pidfd) => Ok(HeldPid::new(pid, pidfd)),
        Err(error) if error.raw_os_error() == Some(Errno::NOPROTOOPT.raw_os_error()) => {
            open_pidfd(pid).map(|pidfd| HeldPid::new(pid, pidfd)).map_err(io::Error::other)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Goal: both ends of a pair were made by this process.
    #[test]
    fn the_kernel_names_the_peer() {
        let (one, _other) = UnixStream::pair().unwrap();
        let peer = Peer::of(&one).unwrap();
        assert_eq!(peer.process.pid(), Pid::of_this_process());
        assert_eq!(peer.user, rustix::process::geteuid().as_raw());
        assert_eq!(peer.group, rustix::process::getegid().as_raw());
        peer.process.check_alive().unwrap();
    }
}
