//! set_mempolicy(2) and mbind(2): the node of memory that is touched for the first time.

use std::io;
use std::ops::Range;

/// MPOL_DEFAULT: the node of the CPU that touches the page.
pub const DEFAULT: libc::c_int = libc::MPOL_DEFAULT;
/// MPOL_BIND: only the nodes of the mask.
pub const BIND: libc::c_int = libc::MPOL_BIND;

/// MPOL_PREFERRED: the first node of the mask, and others when it is full.
pub const PREFERRED: libc::c_int = libc::MPOL_PREFERRED;

/// MPOL_LOCAL: the node of the CPU that touches the page, as by default, but as a policy.
pub const LOCAL: libc::c_int = libc::MPOL_LOCAL;

/// Sets the memory policy of the calling thread; threads that it starts inherit it. Bit n of the
/// mask's words stands for node n.
pub fn set_mempolicy(mode: libc::c_int, mask: &[u64]) -> io::Result<()> {
    let bits = mask.len() * 64 + 1; // the kernel counts one less
    // SAFETY: the kernel reads `bits - 1` bits, that is the whole slice and nothing beyond it,
    // before the call returns; it writes nothing.
    let result = unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, mask.as_ptr(), bits) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the mode of the calling thread's memory policy, with its flags.
pub fn thread_mode() -> io::Result<libc::c_int> {
    let (mut mode, no_mask) = (DEFAULT, std::ptr::null_mut::<u64>());
    // SAFETY: the kernel writes the mode to the place we own; without a mask it writes no other.
    let result = unsafe { libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, no_mask, 0, 0, 0) };
    if result == 0 { Ok(mode) } else { Err(io::Error::last_os_error()) }
}

/// Sets the memory policy of a range of addresses of this process. Bit n of the mask's words stands
/// for node n.
pub fn mbind(range: Range<u64>, mode: libc::c_int, mask: &[u64]) -> io::Result<()> {
    let bits = mask.len() * 64 + 1; // the kernel counts one less
    let (start, bytes) = (range.start, range.end.saturating_sub(range.start));
    // SAFETY: the kernel reads `bits - 1` bits, that is the whole slice and nothing beyond it,
    // before the call returns; without flags no page is moved, and no content changes.
    let result =
        unsafe { libc::syscall(libc::SYS_mbind, start, bytes, mode, mask.as_ptr(), bits, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
