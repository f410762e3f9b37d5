//! Finds the pages that a process writes, with the kernel's soft-dirty bits: they are cleared, and
//! after a while the pages whose bits are set again are listed.
//!
//! It sees writes, exactly and by page; a huge page counts as a whole. It does not see reads; pages
//! of a hugetlb pool, for which the kernel does not keep these bits; nor writes by devices into
//! memory that they have pinned. It overcounts in mappings that were made or grew meanwhile, and in
//! huge pages that the kernel collapsed meanwhile: all of their pages count as written.
//!
//! Cost to the process: while the bits are cleared it cannot map memory, and its page faults may
//! wait; its next write to each page is a page fault. Another user of these bits (CRIU, which saves
//! a process piece by piece) loses them.
//!
//! PAGEMAP_SCAN can also list *written* pages (PAGE_IS_WRITTEN), but only in memory that the
//! process itself has registered with a userfaultfd, which another process cannot do for it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nodeward_machine::{Process, Result};
use nodeward_model::{Escape as _, MappingKind, Range};

use super::{RegionAccess, Unavailability, check_running, wait};
use crate::confinement::PrivilegedAction;
use crate::file_error::file_error;
use crate::own_process::{AreaBacking, MappedArea};
use crate::pagemap::{PAGE_TABLE_PAGES, PagemapWindow};
use crate::populated;
use crate::process::open_file;

/// The name of the operation in errors.
const ACTION: &str = "finding written pages";
/// The value that clears soft-dirty bits when it is written to clear_refs.
pub(crate) const CLEAR_SOFT_DIRTY: &[u8] = b"4";

/// Checks on two pages of this process whether this kernel reports written pages. `root` holds
/// `proc`. Cost: below a millisecond; it clears the soft-dirty bits of this process.
///
/// # Errors
/// `Unsupported` with the reason and the remedy.
pub fn probe(root: &Path) -> Result<()> {
    check(root).map_err(|obstacle| obstacle.error(ACTION))
}

/// Checks as [`probe`] does, and returns the reason in parts.
pub(crate) fn check(root: &Path) -> std::result::Result<(), Unavailability> {
    let folder = root.join("proc/self");
    let kernel = "boot a kernel with CONFIG_MEM_SOFT_DIRTY (arm64 has none)";
    match probe_own_pages(&folder) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Unavailability::missing(
            "this kernel does not note which pages are written",
            kernel,
        )),
        Err(error) => Err(Unavailability::missing(
            format!("clear_refs and pagemap in {} do not work: {error}", folder.escaped()),
            kernel,
        )),
    }
}

/// The bits belong to the whole process, so only one thread may try them at a time.
static PROBE_LOCK: Mutex<()> = Mutex::new(());

/// Returns true if, of two resident pages of this process, exactly the written one is found.
fn probe_own_pages(folder: &Path) -> io::Result<bool> {
    let _alone = PROBE_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let page_bytes = rustix::param::page_size();
    // A mapping of its own: a mapping that the kernel may merge with others could become dirty by
    // that.
    let area = MappedArea::map(2 * page_bytes, AreaBacking::SharedAnonymous)?;
    let second = page_bytes / size_of::<u64>();
    let (start, middle) = (area.address(), area.address() + page_bytes as u64);
    area.words()[0].store(1, Relaxed);
    area.words()[second].store(1, Relaxed);
    let mut clear = File::options().write(true).open(folder.join("clear_refs"))?;
    clear.write_all(CLEAR_SOFT_DIRTY)?;
    area.words()[second].store(2, Relaxed);
    let range = Range::new(start, start + area.bytes() as u64);
    let found = written_ranges(&File::open(folder.join("pagemap"))?, range, page_bytes as u64)?;
    Ok(found == [Range::new(middle, range.end)])
}

/// Returns the pages that a process writes within a time, in ascending order; each range was read
/// once. If told to stop, returns those written until then. Memory: about 40 bytes for each run of
/// pages.
///
/// # Errors
/// `Gone` if the process exits; `Denied` if it belongs to another user. Call [`probe`] first: a
/// kernel without soft-dirty bits reports no pages at all, or all of them.
pub fn watch(
    process: &dyn Process,
    duration_ns: u64,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<RegionAccess>> {
    let pid = process.pid();
    let folder = Path::new("/proc").join(pid.to_string());
    let path = |name| folder.join(name);
    let mut clear_refs = open_file(
        pid,
        path("clear_refs"),
        File::options().write(true),
        PrivilegedAction::OwnerFile,
    )?;
    let pagemap =
        open_file(pid, path("pagemap"), File::options().read(true), PrivilegedAction::Files)?;
    check_running(process)?;
    let end = Instant::now() + Duration::from_nanos(duration_ns);
    clear_refs
        .write_all(CLEAR_SOFT_DIRTY)
        .map_err(|source| file_error(pid, path("clear_refs"), source))?;
    wait(end, process, stop)?;
    let page_bytes = rustix::param::page_size() as u64;
    let mut found = Vec::new();
    for mapping in process.mappings()? {
        if mapping.kind != MappingKind::Huge {
            let ranges = written_ranges(&pagemap, mapping.range, page_bytes)
                .map_err(|source| file_error(pid, path("pagemap"), source))?;
            found.extend(ranges.into_iter().map(as_region));
        }
    }
    check_running(process)?;
    Ok(found)
}

fn as_region(range: Range) -> RegionAccess {
    RegionAccess { range, accesses: 1, samples: 1 }
}

/// Returns the written pages of a page-aligned range, listed by the kernel or, where it cannot list
/// them, read from their pagemap entries.
fn written_ranges(pagemap: &File, range: Range, page_bytes: u64) -> io::Result<Vec<Range>> {
    match populated::soft_dirty(pagemap.as_fd(), range) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)) => {
            written_ranges_by_entry(pagemap, range, page_bytes)
        }
        result => result,
    }
}

/// Reads entry by entry as [`written_ranges`]: 8 bytes for each page, whether it exists or not.
fn written_ranges_by_entry(
    pagemap: &File,
    range: Range,
    page_bytes: u64,
) -> io::Result<Vec<Range>> {
    let mut window = PagemapWindow::new();
    let mut found = Vec::new();
    for piece in range.aligned_pieces(PAGE_TABLE_PAGES as u64 * page_bytes) {
        window.read(pagemap, piece, page_bytes)?;
        let starts = (piece.start..).step_by(page_bytes as usize);
        for (start, entry) in starts.zip(window.entries()) {
            if entry.is_soft_dirty() && (entry.is_present() || entry.non_present().is_some()) {
                populated::join(&mut found, Range::new(start, start + page_bytes));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    const PAGE: u64 = 4096;
    const PRESENT: u64 = 1 << 63;
    const SWAPPED: u64 = 1 << 62;
    const SOFT_DIRTY: u64 = 1 << 55;

    /// Goal: on a kernel that cannot list, written pages are found by their entries, also across
    /// page tables. New mappings, whose empty pages have the bit too, give no pages that do not
    /// exist. (The range begins at page 3 and ends with page 1999, in four page tables.)
    #[test]
    fn entries_tell_what_was_written() {
        let pagemap = tempfile::tempfile().unwrap();
        pagemap.set_len(2000 * 8).unwrap();
        for (page, entry) in [
            (2, PRESENT | SOFT_DIRTY), // before the range
            (3, PRESENT),
            (4, PRESENT | SOFT_DIRTY),
            (5, SWAPPED | SOFT_DIRTY),
            (6, SOFT_DIRTY),
            (511, PRESENT | SOFT_DIRTY),
            (512, PRESENT | SOFT_DIRTY),
            (1999, PRESENT | SOFT_DIRTY),
        ] {
            pagemap.write_all_at(&u64::to_ne_bytes(entry), page * 8).unwrap();
        }
        let found = written_ranges(&pagemap, Range::new(3 * PAGE, 2000 * PAGE), PAGE).unwrap();
        let pages: Vec<_> = found.iter().map(|r| (r.start / PAGE, r.end / PAGE)).collect();
        assert_eq!(pages, [(4, 6), (511, 513), (1999, 2000)]);
        let beyond = written_ranges(&pagemap, Range::new(0, 2001 * PAGE), PAGE).unwrap_err();
        assert_eq!(beyond.kind(), io::ErrorKind::UnexpectedEof, "the address space is gone");
    }

    /// Goal: the probe agrees with a second, simpler test: the bit of this thread's stack, cleared
    /// and written.
    #[test]
    fn the_probe_agrees_with_a_plain_look() {
        let answer = probe(Path::new("/"));
        let _alone = PROBE_LOCK.lock().unwrap_or_else(PoisonError::into_inner);
        let word = std::sync::atomic::AtomicU64::new(0);
        let cleared = std::fs::write("/proc/self/clear_refs", CLEAR_SOFT_DIRTY);
        word.store(1, Relaxed);
        let pagemap = File::open("/proc/self/pagemap").unwrap();
        let entry = crate::pagemap::entry(&pagemap, (&raw const word).addr() as u64, PAGE).unwrap();
        assert_eq!(answer.is_ok(), cleared.is_ok() && entry.is_soft_dirty(), "{answer:?}");
    }

    /// Goal: a kernel without the files gives `Unsupported` with the remedy.
    #[test]
    fn a_kernel_without_the_files_is_unsupported() {
        let root = tempfile::tempdir().unwrap();
        let error = probe(root.path()).unwrap_err().to_string();
        assert!(error.contains("proc/self") && error.contains("CONFIG_MEM_SOFT_DIRTY"), "{error}");
    }
}
