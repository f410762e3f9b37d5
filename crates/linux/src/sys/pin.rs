//! Makes the kernel use pages of this process: a pipe (vmsplice(2)), a ring (io_uring_register(2)),
//! a read of a file.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicU64;

/// Makes a pipe refer to the pages of `words`, without copying them and without waiting for room.
/// Returns the bytes that it took.
pub fn vmsplice(pipe: BorrowedFd<'_>, words: &[AtomicU64]) -> io::Result<usize> {
    let part =
        libc::iovec { iov_base: words.as_ptr().cast_mut().cast(), iov_len: size_of_val(words) };
    // SAFETY: one iovec is passed and one is counted; it covers exactly `words`. The kernel writes
    // nothing there. Without SPLICE_F_GIFT the pages stay this process's; the pipe keeps references
    // of its own, so they may outlive the mapping, and a reader may see later writes, against which
    // nothing is promised.
    let taken =
        unsafe { libc::vmsplice(pipe.as_raw_fd(), &raw const part, 1, libc::SPLICE_F_NONBLOCK) };
    usize::try_from(taken).map_err(|_| io::Error::last_os_error())
}

/// Sets up an io_uring of the smallest size; its only use is to hold buffers.
pub fn setup_ring() -> io::Result<OwnedFd> {
    const PARAMETERS: usize = 120; // struct io_uring_params
    let mut parameters = [0u64; PARAMETERS / 8];
    // SAFETY: the kernel reads and writes the parameters, which are that long.
    let fd = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) };
    let fd = i32::try_from(fd).ok().filter(|&fd| fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the kernel has just made this descriptor for this call, and no other code knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes a ring pin the pages of `words` (FOLL_PIN), as for direct I/O.
pub fn register_buffer(ring: BorrowedFd<'_>, words: &[AtomicU64]) -> io::Result<()> {
    const REGISTER_BUFFERS: u32 = 0;
    let part =
        libc::iovec { iov_base: words.as_ptr().cast_mut().cast(), iov_len: size_of_val(words) };
    let call = libc::SYS_io_uring_register;
    // SAFETY: one iovec is passed and one is counted; it covers exactly `words`. No request of the
    // ring ever uses the buffer, and the pages outlive their mapping if need be.
    let result =
        unsafe { libc::syscall(call, ring.as_raw_fd(), REGISTER_BUFFERS, &raw const part, 1) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Releases the pages that [`register_buffer`] pinned.
pub fn unregister_buffers(ring: BorrowedFd<'_>) -> io::Result<()> {
    const UNREGISTER_BUFFERS: u32 = 1;
    let (call, none) = (libc::SYS_io_uring_register, std::ptr::null::<libc::iovec>());
    // SAFETY: the request takes no argument.
    let result = unsafe { libc::syscall(call, ring.as_raw_fd(), UNREGISTER_BUFFERS, none, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads a file from byte `at` on into `words`; returns the bytes read.
pub fn read_into(file: BorrowedFd<'_>, words: &[AtomicU64], at: u64) -> io::Result<usize> {
    let (start, bytes) = (words.as_ptr().cast_mut().cast(), size_of_val(words));
    // SAFETY: the kernel writes at most `bytes` there; every bit pattern is a u64, and users of
    // atomics expect that others write.
    let read = unsafe { libc::pread(file.as_raw_fd(), start, bytes, at.cast_signed()) };
    usize::try_from(read).map_err(|_| io::Error::last_os_error())
}
