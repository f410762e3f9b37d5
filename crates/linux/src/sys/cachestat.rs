//! Counts the cached pages of a file: cachestat(2).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use nodeward_model::Range;

/// The number is the same on all architectures but Alpha; some versions of the libc crate lack it.
const CACHESTAT: libc::c_long = 451;

/// Counts the cached base pages in a non-empty part of a file (Linux 6.5). The cost grows with the
/// number of cached pages, not with the length.
pub fn count_cached(file: BorrowedFd<'_>, part: Range) -> io::Result<u64> {
    let mut counts = Cachestat::default();
    let part = CachestatRange { offset: part.start, bytes: part.bytes() };
    // SAFETY: the kernel reads the first structure and writes the second, which have its layout.
    let result =
        unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const part, &raw mut counts, 0) };
    if result == 0 { Ok(counts.cached) } else { Err(io::Error::last_os_error()) }
}

/// `struct cachestat_range`.
#[repr(C)]
struct CachestatRange {
    offset: u64,
    bytes: u64,
}

/// `struct cachestat`.
#[repr(C)]
#[derive(Default)]
struct Cachestat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}
