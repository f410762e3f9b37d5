//! Calls that change nothing and whose answer shows what the kernel offers.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Calls move_pages(2) with a flag that no kernel knows. A kernel that receives the call returns
/// EINVAL before it checks anything else.
pub fn move_pages_with_unknown_flag() -> io::Error {
    let nothing = std::ptr::null::<u64>();
    let unknown: libc::c_int = 1 << 30;
    // SAFETY: the count is 0, so the kernel neither reads nor writes through the null pointers.
    unsafe { libc::syscall(libc::SYS_move_pages, 0, 0usize, nothing, nothing, nothing, unknown) };
    io::Error::last_os_error()
}

/// Requests a scan of a pagemap file with an argument of size zero. A kernel that knows the request
/// (PAGEMAP_SCAN) returns EINVAL, others ENOTTY.
pub fn pagemap_scan_without_size(pagemap: &File) -> io::Error {
    const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610; // _IOWR('f', 16, struct pm_scan_arg)
    let mut argument = [0u64; 12]; // struct pm_scan_arg; its first field is its size
    // SAFETY: the request is encoded with the 96 bytes that the argument has; the kernel reads
    // them, may write them, and keeps no pointer.
    unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, argument.as_mut_ptr()) };
    io::Error::last_os_error()
}
