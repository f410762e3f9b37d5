//! Lists the parts of an address range that hold pages, or written pages. The kernel lists them in
//! short calls.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use nodeward_model::Range;

use crate::sys::{PageCategory, PageRegion, scan_pages};

/// Limit on the pages that one call may find. A call holds the target's memory lock for reading:
/// 0.2 ms in dense memory (about 10 ns a page), and 8 ms at worst, with one page in each page table
/// (512 entries of about 1 ns for each page found).
const PAGES_PER_CALL: u64 = 16_384;
/// Bytes of addresses that the first call covers: 0.7 ms of dense memory in which nothing is found.
const STEP_BYTES_MIN: u64 = 256 << 20;
/// Limit on the bytes of addresses that a call covers in a search for populated pages: 16 ms if all
/// page tables are there and empty. The step doubles after each call that came to the end of its
/// addresses, so that terabytes of reserved ones take a few calls.
const STEP_BYTES_MAX: u64 = 64 << 30;
/// Limit on the regions that one call returns.
const REGIONS_PER_CALL: usize = 1024;
/// Limit on the returned ranges: addresses after them are returned whole, as if populated.
const RANGES_MAX: usize = 1 << 18;

/// Checks whether this kernel lists populated ranges, with a request for those of this process's
/// first addresses. A kernel without the call returns ENOTTY.
pub fn is_available(root: &Path) -> bool {
    let pagemap = File::open(root.join("proc/self/pagemap"));
    let mut regions = [PageRegion::default()];
    let mut scan = |file: File| {
        scan_pages(file.as_fd(), PageCategory::Populated, (0, 1 << 16), 1, &mut regions).is_ok()
    };
    pagemap.is_ok_and(&mut scan)
}

/// Returns the parts of a page-aligned range that hold pages in memory or in swap, in ascending
/// order; adjacent ones are joined. A superset if there are more than 2^18 of them.
///
/// # Errors
/// Those of ioctl(2): ENOTTY where the kernel cannot list, ESRCH when the address space is gone.
pub fn populated(pagemap: BorrowedFd<'_>, range: Range) -> io::Result<Vec<Range>> {
    let mut found = Vec::new();
    list(pagemap, range, PageCategory::Populated, &mut found)?;
    Ok(found)
}

/// Returns the pages of a page-aligned range whose soft-dirty bit is set, in memory or in swap, in
/// ascending order; adjacent ones are joined. Reads populated parts only, so holes cost nothing.
///
/// # Errors
/// Those of [`populated`]; EINVAL where the kernel can list, but not by this bit.
pub fn soft_dirty(pagemap: BorrowedFd<'_>, range: Range) -> io::Result<Vec<Range>> {
    let mut found = Vec::new();
    for part in populated(pagemap, range)? {
        list(pagemap, part, PageCategory::SoftDirty, &mut found)?;
    }
    Ok(found)
}

/// Appends the selected parts of a range.
fn list(
    pagemap: BorrowedFd<'_>,
    range: Range,
    wanted: PageCategory,
    found: &mut Vec<Range>,
) -> io::Result<()> {
    let (ranges_max, step_max) = match wanted {
        PageCategory::Populated => (RANGES_MAX, STEP_BYTES_MAX),
        PageCategory::SoftDirty | PageCategory::Huge => (usize::MAX, STEP_BYTES_MIN),
    };
    let mut regions = vec![PageRegion::default(); REGIONS_PER_CALL];
    let (mut at, mut step) = (range.start, STEP_BYTES_MIN);
    while at < range.end {
        if found.len() >= ranges_max {
            join(found, Range::new(at, range.end));
            break;
        }
        let end = at.saturating_add(step).min(range.end);
        let (count, walked) = retry_interrupted(|| {
            scan_pages(pagemap, wanted, (at, end), PAGES_PER_CALL, &mut regions)
        })?;
        let told = regions[..count].iter().map(|r| Range::new(r.start.max(at), r.end));
        told.filter(|part| !part.is_empty()).for_each(|part| join(found, part));
        step = if walked >= end { (step * 2).min(step_max) } else { STEP_BYTES_MIN };
        at = if walked > at { walked } else { end };
    }
    Ok(())
}

/// Appends a range, or extends the last one if they touch.
pub fn join(ranges: &mut Vec<Range>, next: Range) {
    match ranges.last_mut() {
        Some(last) if last.end == next.start => last.end = next.end,
        _ => ranges.push(next),
    }
}

/// Repeats a call while a signal interrupts it.
fn retry_interrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = 4096;

    #[test]
    fn ranges_that_touch_become_one() {
        let mut ranges = Vec::new();
        for (start, end) in [(0, 1), (1, 3), (5, 6), (6, 7)] {
            join(&mut ranges, Range::new(start, end));
        }
        assert_eq!(ranges, [Range::new(0, 3), Range::new(5, 7)]);
    }

    /// Goal: of 1 GiB of addresses with pages 3, 4 and 100000 touched, only those pages are listed.
    #[test]
    fn touched_pages_are_listed_and_holes_are_not() {
        let root = Path::new("/");
        if !is_available(root) {
            println!("skipped: this kernel has no PAGEMAP_SCAN (Linux 6.7)");
            return;
        }
        let mut memory: Vec<u8> = Vec::with_capacity(1 << 30);
        let base = memory.as_ptr().addr().next_multiple_of(PAGE);
        let skip = base - memory.as_ptr().addr();
        for page in [3, 4, 100_000] {
            memory.spare_capacity_mut()[skip + page * PAGE].write(1);
        }
        let pagemap = File::open("/proc/self/pagemap").unwrap();
        let range = Range::new(base as u64, (base + (1 << 29)) as u64 + (1 << 28));
        let found = populated(pagemap.as_fd(), range).unwrap();
        let pages: Vec<_> = found
            .iter()
            .map(|r| ((r.start as usize - base) / PAGE, (r.end as usize - base) / PAGE))
            .collect();
        if pages.iter().any(|(start, end)| end - start > 64) {
            println!("skipped: this kernel gives huge pages unasked, so neighbours are there too");
            return;
        }
        assert_eq!(pages, [(3, 5), (100_000, 100_001)]);
    }
}
