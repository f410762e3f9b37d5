//! vmsplice(2), which makes a pipe hold our pages.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::AtomicU64;

/// Makes a pipe refer to the pages behind `words`, without copying them and without waiting for
/// room. Returns how many bytes it took.
pub fn vmsplice(pipe: BorrowedFd<'_>, words: &[AtomicU64]) -> io::Result<usize> {
    let part =
        libc::iovec { iov_base: words.as_ptr().cast_mut().cast(), iov_len: size_of_val(words) };
    // SAFETY: one iovec is passed and one is counted; it covers exactly `words`. The kernel writes
    // nothing there. Without SPLICE_F_GIFT the pages stay ours; the pipe keeps references of its
    // own, so they may outlive the mapping, and a reader may see later writes, which is promised
    // nowhere.
    let taken =
        unsafe { libc::vmsplice(pipe.as_raw_fd(), &raw const part, 1, libc::SPLICE_F_NONBLOCK) };
    usize::try_from(taken).map_err(|_| io::Error::last_os_error())
}
