//! The other end of a Unix socket, ids of processes, inherited descriptors:
//! getsockopt(2), ioctl(2), fcntl(2).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Returns a pidfd of the process that connected a Unix socket (Linux 6.5).
///
/// # Errors
/// `ENOPROTOOPT` on older kernels; `ESRCH` or `EINVAL` if the process is gone without a trace.
pub fn peer_pidfd(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut pidfd: libc::c_int = -1;
    let mut bytes = size_of::<libc::c_int>() as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERPIDFD);
    let (into, length) = ((&raw mut pidfd).cast(), &raw mut bytes);
    // SAFETY: the kernel writes one int to `pidfd`, as its length says, and that to `bytes`.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, into, length) };
    if result != 0 || pidfd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(pidfd) })
}

/// Returns pid, user id and group id of the process that connected a Unix socket, as of then.
/// The pid is 0 if our pid namespace does not have it. (rustix has this call, with a pid that may
/// not be 0.)
///
/// # Errors
/// Those of getsockopt(2).
pub fn peer_ids(socket: BorrowedFd<'_>) -> io::Result<(i32, u32, u32)> {
    let mut ids = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    let (into, length) = ((&raw mut ids).cast(), &raw mut bytes);
    // SAFETY: the kernel writes one `ucred` to `ids`, as its length says, and that to `bytes`.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, into, length) };
    if result == 0 { Ok((ids.pid, ids.uid, ids.gid)) } else { Err(io::Error::last_os_error()) }
}

/// Returns a duplicate of a descriptor that is known by its number only, such as one that this
/// process was started with.
///
/// # Errors
/// `EBADF` if there is none.
pub fn duplicate(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: no address is passed, and a number that is no descriptor is an error.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Returns our number of the process or thread that a pid namespace knows as `pid` (Linux 6.11).
///
/// # Errors
/// `ESRCH` if there is none; `ENOTTY` or `EINVAL` on older kernels.
pub fn pid_from_namespace(namespace: BorrowedFd<'_>, pid: u32) -> io::Result<u32> {
    let (fd, pid) = (namespace.as_raw_fd(), libc::c_ulong::from(pid));
    // SAFETY: the argument is a number, not an address.
    let ours = unsafe { libc::ioctl(fd, libc::NS_GET_PID_FROM_PIDNS, pid) };
    u32::try_from(ours).map_err(|_| io::Error::last_os_error())
}

/// Returns the real, effective and saved user ids, and group ids, of the process of a pidfd, in our
/// user namespace (Linux 6.13).
///
/// # Errors
/// `ESRCH` if it is gone; `ENOTTY` or `EINVAL` on older kernels.
pub fn pidfd_ids(pidfd: BorrowedFd<'_>) -> io::Result<([u32; 3], [u32; 3])> {
    // SAFETY: all of its fields are numbers, for which zero is a value.
    let mut info: libc::pidfd_info = unsafe { std::mem::zeroed() };
    info.mask = u64::from(libc::PIDFD_INFO_CREDS);
    let into = &raw mut info;
    // SAFETY: the kernel reads and writes one `pidfd_info`, whose size is part of the number.
    let result = unsafe { libc::ioctl(pidfd.as_raw_fd(), libc::PIDFD_GET_INFO, into) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if info.mask & u64::from(libc::PIDFD_INFO_CREDS) == 0 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(([info.ruid, info.euid, info.suid], [info.rgid, info.egid, info.sgid]))
}
