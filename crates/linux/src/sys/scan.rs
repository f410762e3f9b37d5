//! PAGEMAP_SCAN, the ioctl of /proc/PID/pagemap that lists ranges of pages (Linux 6.7).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A run of pages of one category: `struct page_region` of linux/fs.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageRegion {
    /// The first address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// Bits of the pages' categories; zero if none were requested.
    pub categories: u64,
}

/// `struct pm_scan_arg` of linux/fs.h.
#[repr(C)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
const PAGE_IS_HUGE: u64 = 1 << 6;
const PAGE_IS_SOFT_DIRTY: u64 = 1 << 7;
const PAGEMAP_SCAN: libc::Ioctl =
    (3 << 30 | size_of::<ScanArgument>() << 16 | (b'f' as usize) << 8 | 16) as libc::Ioctl;

/// The pages that are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageCategory {
    /// Pages in memory or in swap.
    Populated,
    /// Populated pages whose soft-dirty bit, or that of their mapping, is set.
    SoftDirty,
    /// Populated pages that a page table entry for a whole huge page maps.
    Huge,
}

/// Lists the runs of the selected pages from `start` to `end`, until `regions` is full or
/// `pages_max` pages were found. Returns the number of regions written and the address up to which
/// the kernel has scanned. An interrupted call is an error (EINTR) and may be repeated.
pub fn scan_pages(
    pagemap: BorrowedFd<'_>,
    wanted: PageCategory,
    (start, end): (u64, u64),
    pages_max: u64,
    regions: &mut [PageRegion],
) -> io::Result<(usize, u64)> {
    let all_of = match wanted {
        PageCategory::Populated => 0,
        PageCategory::SoftDirty => PAGE_IS_SOFT_DIRTY,
        PageCategory::Huge => PAGE_IS_HUGE,
    };
    let mut argument = ScanArgument {
        size: size_of::<ScanArgument>() as u64,
        flags: 0,
        start,
        end,
        walk_end: 0,
        vec: regions.as_mut_ptr().expose_provenance() as u64,
        vec_len: regions.len() as u64,
        max_pages: pages_max,
        category_inverted: 0,
        category_mask: all_of,
        category_anyof_mask: PAGE_IS_PRESENT | PAGE_IS_SWAPPED,
        return_mask: PAGE_IS_PRESENT,
    };
    let pointer: *mut ScanArgument = &raw mut argument;
    // SAFETY: the argument is as large as it says, and `vec` points at `vec_len` regions that live
    // as long as the call; the kernel writes only those and `walk_end`, and keeps neither.
    let count = unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, pointer) };
    let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
    Ok((count, argument.walk_end))
}

const _: () = assert!(size_of::<PageRegion>() == 24 && size_of::<ScanArgument>() == 96);
