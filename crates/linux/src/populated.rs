//! Which parts of an address range hold pages, or written pages, listed by the kernel in short
//! pieces.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use nodeward_model::Range;

use crate::sys::{PageRegion, Wanted, scan_pages};

/// Pages that one call may find. The target's memory lock is held in a call, for reading: in dense
/// memory (about 10 ns a page) 0.2 ms, and with one page per page table at worst (512 entries of
/// about 1 ns for each page found) 8 ms.
const PAGES_PER_CALL: u64 = 16_384;
/// Addresses that the first call covers, in bytes: 0.7 ms of dense memory in which nothing is
/// found.
const STEP_BYTES_MIN: u64 = 256 << 20;
/// Addresses that a call covers at most, in bytes, where pages themselves are looked for: twice as
/// many after each call that found nothing, so that terabytes of reserved addresses take a handful
/// of calls.
const STEP_BYTES_MAX: u64 = 64 << 30;
/// Regions taken from one call.
const REGIONS_PER_CALL: usize = 1024;
/// Ranges returned at most: what lies behind them is returned whole, as if it were populated.
const RANGES_MAX: usize = 1 << 18;

/// Whether this kernel lists populated ranges, by asking for those of our own first page. A kernel
/// without the call says ENOTTY.
pub fn is_available(root: &Path) -> bool {
    let pagemap = File::open(root.join("proc/self/pagemap"));
    let mut regions = [PageRegion::default()];
    let mut scan = |file: File| {
        scan_pages(file.as_fd(), Wanted::Populated, (0, 1 << 16), 1, &mut regions).is_ok()
    };
    pagemap.is_ok_and(&mut scan)
}

/// The parts of a page-aligned range that hold pages in memory or in swap, in ascending order;
/// neighbours are joined. A superset if there are more than 2^18 of them.
///
/// # Errors
/// As ioctl(2): ENOTTY where the kernel cannot list, ESRCH when the address space is gone.
pub fn populated(pagemap: BorrowedFd<'_>, range: Range) -> io::Result<Vec<Range>> {
    let mut found = Vec::new();
    list(pagemap, range, Wanted::Populated, &mut found)?;
    Ok(found)
}

/// The pages of a page-aligned range whose soft-dirty bit is set, in memory or in swap, in
/// ascending order; neighbours are joined. Looks at populated parts only, so holes cost nothing.
///
/// # Errors
/// As [`populated`]; EINVAL where the kernel lists, but not these.
pub fn soft_dirty(pagemap: BorrowedFd<'_>, range: Range) -> io::Result<Vec<Range>> {
    let mut found = Vec::new();
    for part in populated(pagemap, range)? {
        list(pagemap, part, Wanted::SoftDirty, &mut found)?;
    }
    Ok(found)
}

/// Appends the wanted parts of a range.
fn list(
    pagemap: BorrowedFd<'_>,
    range: Range,
    wanted: Wanted,
    found: &mut Vec<Range>,
) -> io::Result<()> {
    let (ranges_max, step_max) = match wanted {
        Wanted::Populated => (RANGES_MAX, STEP_BYTES_MAX),
        Wanted::SoftDirty | Wanted::Huge => (usize::MAX, STEP_BYTES_MIN),
    };
    let mut regions = vec![PageRegion::default(); REGIONS_PER_CALL];
    let (mut at, mut step) = (range.start, STEP_BYTES_MIN);
    while at < range.end {
        if found.len() >= ranges_max {
            join(found, Range::new(at, range.end));
            break;
        }
        let end = at.saturating_add(step).min(range.end);
        let (count, walked) =
            patiently(|| scan_pages(pagemap, wanted, (at, end), PAGES_PER_CALL, &mut regions))?;
        let told = regions[..count].iter().map(|r| Range::new(r.start.max(at), r.end));
        told.filter(|part| !part.is_empty()).for_each(|part| join(found, part));
        step = if count == 0 { (step * 2).min(step_max) } else { STEP_BYTES_MIN };
        at = if walked > at { walked } else { end };
    }
    Ok(())
}

/// Adds a range behind the others, or to the last one if it touches that.
pub fn join(ranges: &mut Vec<Range>, next: Range) {
    match ranges.last_mut() {
        Some(last) if last.end == next.start => last.end = next.end,
        _ => ranges.push(next),
    }
}

/// Repeats a call that a signal interrupted.
fn patiently<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
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

    /// 1 GiB of our own addresses of which pages 3, 4 and 100000 are touched.
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
