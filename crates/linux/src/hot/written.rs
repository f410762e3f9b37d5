//! Which pages a process writes, by the kernel's soft-dirty bits: they are cleared, and after a
//! while the pages are listed whose bits are set again.
//!
//! What it sees: writes, by page and exactly; a huge page counts as a whole. What it does not see:
//! reads; pages of a hugetlb pool, for which the kernel does not keep these bits; writes by devices
//! into memory that they hold. It sees too much in mappings that were made, or grew, meanwhile, and
//! in huge pages that the kernel put together meanwhile: all of their pages count as written.
//!
//! What it costs the process: for as long as clearing takes it cannot map memory, and may have to
//! wait with a page fault; its next write to each page is a page fault. Whoever else uses these
//! bits (CRIU, to save a process piece by piece) loses them.
//!
//! PAGEMAP_SCAN also knows pages that were *written* (PAGE_IS_WRITTEN). Those it tells only of
//! memory that the process itself has registered with a userfaultfd, which a stranger cannot do
//! for it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nodeward_machine::{Process, Result};
use nodeward_model::{Escape as _, MappingKind, Range};

use super::{Obstacle, RegionAccess, still_there, wait};
use crate::advice::Attempt;
use crate::own::{Area, Backing};
use crate::pagemap::{WINDOW_PAGES, Window};
use crate::populated;
use crate::process::{failed, open};

/// What the caller wants, for errors.
const WHAT: &str = "finding written pages";
/// What clears soft-dirty bits when it is written to clear_refs.
const CLEAR_SOFT_DIRTY: &[u8] = b"4";

/// Whether this kernel tells which pages were written, by trying it on two pages of our own. `root`
/// holds `proc`. Cost: below a millisecond; it clears the soft-dirty bits of this process.
///
/// # Errors
/// `Unsupported` with the reason and what helps.
pub fn probe(root: &Path) -> Result<()> {
    examine(root).map_err(|obstacle| obstacle.error(WHAT))
}

/// As [`probe`], with the reason in parts.
pub(crate) fn examine(root: &Path) -> std::result::Result<(), Obstacle> {
    let folder = root.join("proc/self");
    let kernel = "boot a kernel with CONFIG_MEM_SOFT_DIRTY (arm64 has none)";
    match try_on_ourselves(&folder) {
        Ok(true) => Ok(()),
        Ok(false) => {
            Err(Obstacle::missing("this kernel does not note which pages are written", kernel))
        }
        Err(error) => Err(Obstacle::missing(
            format!("clear_refs and pagemap in {} do not work: {error}", folder.escaped()),
            kernel,
        )),
    }
}

/// The bits are those of the whole process: who tries them is alone.
static TRYING: Mutex<()> = Mutex::new(());

/// Whether of two pages of ours, both in memory, the one is found that was written.
fn try_on_ourselves(folder: &Path) -> io::Result<bool> {
    let _alone = TRYING.lock().unwrap_or_else(PoisonError::into_inner);
    let page_bytes = rustix::param::page_size();
    // Of their own mapping: one that others may be joined to could be set dirty by that.
    let area = Area::map(2 * page_bytes, Backing::SharedAnonymous)?;
    let second = page_bytes / size_of::<u64>();
    let (start, middle) = (area.address(), area.address() + page_bytes as u64);
    area.words()[0].store(1, Relaxed);
    area.words()[second].store(1, Relaxed);
    let mut clear = File::options().write(true).open(folder.join("clear_refs"))?;
    clear.write_all(CLEAR_SOFT_DIRTY)?;
    area.words()[second].store(2, Relaxed);
    let range = Range::new(start, start + area.bytes() as u64);
    let found = written(&File::open(folder.join("pagemap"))?, range, page_bytes as u64)?;
    Ok(found == [Range::new(middle, range.end)])
}

/// The pages that a process writes within a time, in ascending order; each range was looked at
/// once. If told to stop, those that it wrote until then. About 40 bytes for each run of pages.
///
/// # Errors
/// `Gone` if the process ends; `Denied` if it is another user's. Ask [`probe`] first: a kernel
/// without soft-dirty bits tells of no pages at all, or of all.
pub fn watch(
    process: &dyn Process,
    duration_ns: u64,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<RegionAccess>> {
    let pid = process.pid();
    let folder = Path::new("/proc").join(pid.to_string());
    let path = |name| folder.join(name);
    let mut clear_refs =
        open(pid, path("clear_refs"), File::options().write(true), Attempt::OwnersFile)?;
    let pagemap = open(pid, path("pagemap"), File::options().read(true), Attempt::Files)?;
    still_there(process)?;
    let end = Instant::now() + Duration::from_nanos(duration_ns);
    clear_refs
        .write_all(CLEAR_SOFT_DIRTY)
        .map_err(|source| failed(pid, path("clear_refs"), source))?;
    wait(end, process, stop)?;
    let page_bytes = rustix::param::page_size() as u64;
    let mut found = Vec::new();
    for mapping in process.mappings()? {
        if mapping.kind != MappingKind::Huge {
            let ranges = written(&pagemap, mapping.range, page_bytes)
                .map_err(|source| failed(pid, path("pagemap"), source))?;
            found.extend(ranges.into_iter().map(once));
        }
    }
    still_there(process)?;
    Ok(found)
}

fn once(range: Range) -> RegionAccess {
    RegionAccess { range, accesses: 1, samples: 1 }
}

/// The written pages of a page-aligned range, listed by the kernel or, where it does not list them,
/// read from their entries.
fn written(pagemap: &File, range: Range, page_bytes: u64) -> io::Result<Vec<Range>> {
    match populated::soft_dirty(pagemap.as_fd(), range) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)) => {
            written_by_entries(pagemap, range, page_bytes)
        }
        result => result,
    }
}

/// As [`written`], entry by entry: 8 bytes are read for each page, whether it is there or not.
fn written_by_entries(pagemap: &File, range: Range, page_bytes: u64) -> io::Result<Vec<Range>> {
    let mut window = Window::new();
    let mut found = Vec::new();
    for piece in range.aligned_pieces(WINDOW_PAGES as u64 * page_bytes) {
        window.read(pagemap, piece, page_bytes)?;
        let starts = (piece.start..).step_by(page_bytes as usize);
        for (start, entry) in starts.zip(window.entries()) {
            if entry.is_soft_dirty() && (entry.is_present() || entry.stand_in().is_some()) {
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

    /// Goal: on a kernel that does not list, written pages are found by their entries, also across
    /// page tables; new mappings, whose empty pages have the bit too, show no pages that are not
    /// there. (The range begins at page 3 and ends with page 1999, in four page tables.)
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
        let found = written(&pagemap, Range::new(3 * PAGE, 2000 * PAGE), PAGE).unwrap();
        let pages: Vec<_> = found.iter().map(|r| (r.start / PAGE, r.end / PAGE)).collect();
        assert_eq!(pages, [(4, 6), (511, 513), (1999, 2000)]);
        let beyond = written(&pagemap, Range::new(0, 2001 * PAGE), PAGE).unwrap_err();
        assert_eq!(beyond.kind(), io::ErrorKind::UnexpectedEof, "the address space is gone");
    }

    /// Goal: what the probe says of this kernel is what a second, simpler look says: the bit of
    /// our own stack, cleared and written.
    #[test]
    fn the_probe_agrees_with_a_plain_look() {
        let answer = probe(Path::new("/"));
        let _alone = TRYING.lock().unwrap_or_else(PoisonError::into_inner);
        let word = std::sync::atomic::AtomicU64::new(0);
        let cleared = std::fs::write("/proc/self/clear_refs", CLEAR_SOFT_DIRTY);
        word.store(1, Relaxed);
        let pagemap = File::open("/proc/self/pagemap").unwrap();
        let entry = crate::pagemap::entry(&pagemap, (&raw const word).addr() as u64, PAGE).unwrap();
        assert_eq!(answer.is_ok(), cleared.is_ok() && entry.is_soft_dirty(), "{answer:?}");
    }

    /// Goal: a kernel without the files is told apart, with what to do.
    #[test]
    fn a_kernel_without_the_files_is_unsupported() {
        let root = tempfile::tempdir().unwrap();
        let error = probe(root.path()).unwrap_err().to_string();
        assert!(error.contains("proc/self") && error.contains("CONFIG_MEM_SOFT_DIRTY"), "{error}");
    }
}
