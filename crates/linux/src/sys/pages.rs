//! move_pages(2), which moves pages and also reports where they are, migrate_pages(2), and
//! process_madvise(2) where it collapses pages or splits huge ones.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use nodeward_model::Range;

const MPOL_MF_MOVE: libc::c_int = 1 << 1;
const MPOL_MF_MOVE_ALL: libc::c_int = 1 << 2;

/// Asks the kernel to move pages of a process. `status` must be as long as `pages`; the kernel may
/// leave entries of it unwritten. Returns the number of pages without a result.
pub fn move_pages(
    pid: u32,
    pages: &[u64],
    nodes: &[i32],
    status: &mut [i32],
    move_shared: bool,
) -> io::Result<u64> {
    assert!(
        pages.len() == nodes.len() && pages.len() == status.len(),
        "one node and status a page"
    );
    let flags = if move_shared { MPOL_MF_MOVE_ALL } else { MPOL_MF_MOVE };
    // SAFETY: the three arrays are as long as the count says; the kernel reads the first two,
    // writes the third, keeps none, and never dereferences the addresses in `pages` in this
    // process.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid as libc::pid_t,
            pages.len(),
            pages.as_ptr(),
            nodes.as_ptr(),
            status.as_mut_ptr(),
            flags,
        )
    };
    u64::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Queries the place of each page: a node, or a negative error number.
pub fn query_pages(pid: u32, pages: &[u64], status: &mut [i32]) -> io::Result<()> {
    assert!(pages.len() == status.len(), "one status a page");
    // SAFETY: both arrays are as long as the count says; with a null node array the kernel only
    // reads the first, writes the second and moves nothing.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid as libc::pid_t,
            pages.len(),
            pages.as_ptr(),
            std::ptr::null::<i32>(),
            status.as_mut_ptr(),
            0,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Asks the kernel to move all pages of a process from one node to another: with CAP_SYS_NICE also
/// those that other processes map. Returns the number of pages that could not be moved.
pub fn migrate_pages(pid: u32, from: u32, to: u32) -> io::Result<u64> {
    let words = from.max(to) as usize / 64 + 1;
    let mask = |node: u32| {
        let mut mask = vec![0_u64; words];
        mask[node as usize / 64] = 1 << (node % 64);
        mask
    };
    let (from, to) = (mask(from), mask(to));
    let bits = words * 64 + 1; // the kernel counts one less
    // SAFETY: the kernel reads `bits - 1` bits of each mask, that is the whole of it and nothing
    // beyond it, before the call returns; it writes nothing, and the pages' content stays.
    let result = unsafe {
        libc::syscall(libc::SYS_migrate_pages, pid as libc::pid_t, bits, from.as_ptr(), to.as_ptr())
    };
    u64::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Asks the kernel to collapse the base pages of a part of a process into huge pages. Of an empty
/// part only the right to do so is checked, and whether the kernel knows the call.
pub fn collapse(pidfd: BorrowedFd<'_>, part: Range) -> io::Result<()> {
    advise(pidfd, part, libc::MADV_COLLAPSE)
}

/// Tells the kernel that a part of a process will not be used soon. Of an empty part only the right
/// to do so is checked, and whether the kernel knows the call.
pub fn deactivate(pidfd: BorrowedFd<'_>, part: Range) -> io::Result<()> {
    advise(pidfd, part, libc::MADV_COLD)
}

/// Gives advice that changes no content.
fn advise(pidfd: BorrowedFd<'_>, part: Range, advice: libc::c_int) -> io::Result<()> {
    let parts = [libc::iovec {
        iov_base: std::ptr::without_provenance_mut(part.start as usize),
        iov_len: part.bytes() as usize,
    }];
    let count = usize::from(part.bytes() > 0);
    // SAFETY: the kernel reads at most the one entry of `parts`, before the call returns. It never
    // dereferences the address in this process; memory keeps its content under this advice.
    let result = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            pidfd.as_raw_fd(),
            parts.as_ptr(),
            count,
            advice,
            0_u32,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
