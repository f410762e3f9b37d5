//! System calls on words of this process's memory: transfers to and from a descriptor, futex(2),
//! prctl(2).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

const PAGE_WORDS: usize = 512;

/// A system call that fills words or reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferCall {
    /// read(2).
    Read,
    /// write(2).
    Write,
    /// preadv(2) from this byte on, in two parts.
    ReadAt(u64),
    /// pwritev(2) from this byte on, in two parts.
    WriteAt(u64),
    /// recv(2).
    Receive,
    /// send(2).
    Send,
}

/// Makes a system call that fills `words` or reads them; returns the transferred bytes.
pub fn transfer(fd: BorrowedFd<'_>, words: &[AtomicU64], how: TransferCall) -> io::Result<usize> {
    let (fd, start, bytes) = (fd.as_raw_fd(), address(words), size_of_val(words));
    // Direct I/O needs whole blocks.
    let (one, two) = words.split_at(words.len() / 2 / PAGE_WORDS * PAGE_WORDS);
    let parts =
        [one, two].map(|part| libc::iovec { iov_base: address(part), iov_len: size_of_val(part) });
    let parts = parts.as_ptr();
    let done = match how {
        // SAFETY: the kernel writes at most `bytes` there; every bit pattern is a u64, and users
        // of atomics expect that others write.
        TransferCall::Read => unsafe { libc::read(fd, start, bytes) },
        // SAFETY: the kernel reads `bytes` there, which are the words.
        TransferCall::Write => unsafe { libc::write(fd, start, bytes) },
        // SAFETY: two iovecs are passed and two are counted; they cover exactly `words`.
        TransferCall::ReadAt(at) => unsafe { libc::preadv(fd, parts, 2, at.cast_signed()) },
        // SAFETY: as above.
        TransferCall::WriteAt(at) => unsafe { libc::pwritev(fd, parts, 2, at.cast_signed()) },
        // SAFETY: as for read.
        TransferCall::Receive => unsafe { libc::recv(fd, start, bytes, libc::MSG_WAITALL) },
        // SAFETY: as for write.
        TransferCall::Send => unsafe { libc::send(fd, start, bytes, libc::MSG_NOSIGNAL) },
    };
    usize::try_from(done).map_err(|_| io::Error::last_os_error())
}

fn address(words: &[AtomicU64]) -> *mut libc::c_void {
    words.as_ptr().cast_mut().cast()
}

/// Returns the low half of a word, which a futex compares.
fn low_half(word: &AtomicU64) -> *const u32 {
    let half = word.as_ptr().cast_const().cast::<u32>();
    half.wrapping_add(usize::from(cfg!(target_endian = "big")))
}

/// Waits for [`futex_wake`] while the low half of a word is `value`, at most for `timeout`.
pub fn futex_wait(word: &AtomicU64, value: u32, timeout: Duration) -> io::Result<()> {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let timeout = libc::timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    let (half, time) = (low_half(word), &raw const timeout);
    // SAFETY: the kernel reads four bytes of the word, and the time.
    let result = unsafe { libc::syscall(libc::SYS_futex, half, operation, value, time) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Wakes all threads that wait at a word; returns their number.
pub fn futex_wake(word: &AtomicU64) -> io::Result<usize> {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    let half = low_half(word);
    // SAFETY: the kernel uses the address only as a key, and neither reads nor writes the word.
    let woken = unsafe { libc::syscall(libc::SYS_futex, half, operation, i32::MAX) };
    usize::try_from(woken).map_err(|_| io::Error::last_os_error())
}

/// Tells the kernel whether to merge equal pages of all memory of this process (Linux 6.4).
pub fn merge_equal_pages(on: bool) -> io::Result<()> {
    const PR_SET_MEMORY_MERGE: i32 = 67;
    let none: libc::c_ulong = 0;
    // SAFETY: prctl with integers only.
    let result =
        unsafe { libc::prctl(PR_SET_MEMORY_MERGE, libc::c_ulong::from(on), none, none, none) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
