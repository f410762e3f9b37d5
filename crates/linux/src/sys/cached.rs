//! How many pages of a file are in memory: cachestat(2).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use nodeward_model::Range;

/// The same on all architectures but Alpha; not every edition of the C library's constants has it.
const CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range`.
#[repr(C)]
struct Part {
    offset: u64,
    bytes: u64,
}

/// `struct cachestat`.
#[repr(C)]
#[derive(Default)]
struct Counts {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Counts base pages in a part of a file that is not empty. What it takes grows with what there is,
/// not with the length (Linux 6.5).
pub fn count_cached(file: BorrowedFd<'_>, part: Range) -> io::Result<u64> {
    let mut counts = Counts::default();
    let part = Part { offset: part.start, bytes: part.bytes() };
    // SAFETY: the kernel reads the first structure and writes the second, which have its layout.
    let result =
        unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const part, &raw mut counts, 0) };
    if result == 0 { Ok(counts.cached) } else { Err(io::Error::last_os_error()) }
}
