//! One open file: its cached pages, and their mapping.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nodeward_model::Range;
use rustix::fs::{
    Access, AtFlags, CWD, FileType, Mode, OFlags, Stat, accessat, fstat, fstatfs, openat,
};
use rustix::io::Errno;

use super::candidates::{CacheSearch, CandidateRanges};
use super::problem::ProblemKind;
use crate::sys::FileView;

/// `statfs.f_type` of hugetlbfs (include/uapi/linux/magic.h).
const HUGETLBFS: u64 = 0x9584_58f6;

/// A regular file that is open for reading.
#[derive(Debug)]
pub struct OpenFile {
    /// The path at which it was found.
    pub path: PathBuf,
    file: OwnedFd,
    bytes: u64,
    page_bytes: u64,
    visibility: CacheVisibility,
    search: CacheSearch,
}

/// The part of the kernel's residency report that can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CacheVisibility {
    /// All of it.
    Mincore,
    /// All pages are cached, whatever the report says.
    All,
    /// None of it.
    Hidden(ProblemKind),
}

impl OpenFile {
    /// Opens the entry `name` of a directory; `None` if it is not (or no longer) a regular file.
    pub fn open(
        folder: BorrowedFd<'_>,
        name: &Path,
        path: &Path,
        link: OFlags,
    ) -> io::Result<Option<Self>> {
        // The entry may have been replaced since the stat; opening a pipe without NONBLOCK would
        // wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | link;
        let (file, owned) = match openat(folder, name, flags | OFlags::NOATIME, Mode::empty()) {
            Err(Errno::PERM) => (openat(folder, name, flags, Mode::empty())?, false),
            opened => (opened?, true),
        };
        let stat = fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        let page_bytes = page_bytes(&file, &stat)?;
        let knowledge = match is_base_page(page_bytes) {
            true if owned || may_write(&file) => CacheVisibility::Mincore,
            true => CacheVisibility::Hidden(ProblemKind::Untold),
            false => hugetlb_visibility(&stat),
        };
        let bytes = stat.st_size.cast_unsigned();
        let sight = match knowledge {
            CacheVisibility::Mincore => CacheSearch::for_file(&file, bytes)?,
            CacheVisibility::All | CacheVisibility::Hidden(_) => CacheSearch::Unsearched,
        };
        Ok(Some(Self {
            path: path.to_owned(),
            file,
            bytes,
            page_bytes,
            visibility: knowledge,
            search: sight,
        }))
    }

    /// Returns the reason why the cached pages of the file cannot be known; `None` if they can.
    pub fn problem(&self) -> Option<ProblemKind> {
        match self.visibility {
            CacheVisibility::Hidden(trouble) => Some(trouble),
            CacheVisibility::Mincore | CacheVisibility::All => None,
        }
    }

    /// Returns the parts in which pages may be cached; [`Self::window`] consumes them.
    pub fn candidates(&self) -> CandidateRanges {
        CandidateRanges::new(self.search, self.bytes.next_multiple_of(self.page_bytes))
    }

    /// Maps the next parts of the file that may be cached, within one multiple of [`WINDOW_BYTES`],
    /// and queries which of their pages are; `None` if there are no more. Reads nothing from the
    /// disk.
    pub fn window(&self, parts: &mut CandidateRanges) -> io::Result<Option<FileWindow>> {
        let found = parts.next_window(&self.file)?;
        let (Some(first), Some(last)) = (found.first(), found.last()) else { return Ok(None) };
        let bytes = usize::try_from(last.end - first.start).map_err(io::Error::other)?;
        let page_bytes = usize::try_from(self.page_bytes).map_err(io::Error::other)?;
        let view = FileView::map(self.file.as_fd(), first.start, bytes, page_bytes)?;
        let begin = view.range().start;
        let cached = match self.visibility {
            CacheVisibility::Mincore => {
                let at = |offset| begin + (offset - first.start);
                let parts = found.iter().map(|part| Range::new(at(part.start), at(part.end)));
                cached_ranges_of(&view, parts)?
            }
            CacheVisibility::All => vec![view.range()],
            CacheVisibility::Hidden(_) => Vec::new(),
        };
        let looked_bytes = found.iter().map(|part| part.bytes()).sum();
        Ok(Some(FileWindow {
            view,
            cached,
            scanned_bytes: looked_bytes,
            is_huge: !is_base_page(self.page_bytes),
        }))
    }
}

/// A mapped part of a file.
#[derive(Debug)]
pub struct FileWindow {
    view: FileView,
    cached: Vec<Range>,
    /// Bytes that were queried page by page.
    pub scanned_bytes: u64,
    /// True if its pages are those of a hugetlb pool.
    pub is_huge: bool,
}

impl FileWindow {
    /// Returns the cached bytes.
    pub fn cached_bytes(&self) -> u64 {
        self.cached.iter().map(|range| range.bytes()).sum()
    }

    /// Maps the cached pages and no others, up to the first that cannot be mapped, such as one
    /// beyond the new end of the file. A page that was dropped since the query is read again.
    pub fn populate(self) -> PopulatedView {
        let ends = self.cached.first().zip(self.cached.last());
        let range =
            ends.map_or(Range::new(0, 0), |(first, last)| Range::new(first.start, last.end));
        let mut populated = PopulatedView { view: self.view, range, bytes: 0, error: None };
        for &range in &self.cached {
            match populated.view.populate(range) {
                Ok(()) => populated.bytes += range.bytes(),
                Err(error) => {
                    populated.error = Some(error);
                    break;
                }
            }
        }
        populated
    }
}

/// A part of a file with its pages mapped.
#[derive(Debug)]
pub struct PopulatedView {
    /// The mapping.
    pub view: FileView,
    /// From the first to the last mapped page.
    pub range: Range,
    /// Bytes that were certainly mapped.
    pub bytes: u64,
    /// The error that ended the mapping early.
    pub error: Option<io::Error>,
}

/// Returns the size of the file's pages. (Other file systems too report a large preferred block
/// size.)
fn page_bytes(file: &OwnedFd, stat: &Stat) -> io::Result<u64> {
    let base = rustix::param::page_size() as u64;
    let block = u64::try_from(stat.st_blksize).unwrap_or(base);
    let is_huge = block > base && u64::try_from(fstatfs(file)?.f_type) == Ok(HUGETLBFS);
    Ok(if is_huge { block } else { base })
}

fn is_base_page(page_bytes: u64) -> bool {
    page_bytes == rustix::param::page_size() as u64
}

/// mincore(2) sees huge pages only where they are mapped. But they exist only in memory, so all of
/// a file without holes is in memory.
fn hugetlb_visibility(stat: &Stat) -> CacheVisibility {
    match stat.st_blocks.saturating_mul(512) >= stat.st_size {
        true => CacheVisibility::All,
        false => CacheVisibility::Hidden(ProblemKind::Holes),
    }
}

/// Returns true if the kernel would permit writing. It then reports residency although the file
/// belongs to another user (`can_do_mincore` in mm/mincore.c). The flag O_NOATIME tests the other
/// half of that rule with the same function: `inode_owner_or_capable`.
fn may_write(file: &OwnedFd) -> bool {
    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    accessat(CWD, itself, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

/// Returns the cached pages of a part of a view.
fn cached_ranges(view: &FileView, part: Range) -> io::Result<Vec<Range>> {
    Ok(resident_runs(&view.residency(part)?, part))
}

/// Returns the cached pages of several parts of a view; a run may extend from one part into the
/// next.
fn cached_ranges_of(view: &FileView, parts: impl Iterator<Item = Range>) -> io::Result<Vec<Range>> {
    let mut runs: Vec<Range> = Vec::new();
    for part in parts {
        for run in cached_ranges(view, part)? {
            match runs.last_mut().filter(|last| last.end == run.start) {
                Some(last) => last.end = run.end,
                None => runs.push(run),
            }
        }
    }
    Ok(runs)
}

/// Maps the cached pages of a part of a view. Pages that cannot be mapped are left out.
pub fn remap_cached(view: &FileView, part: Range) {
    for range in cached_ranges(view, part).unwrap_or_default() {
        // The file was truncated, or the page was dropped just now.
        view.populate(range).ok();
    }
}

/// Returns the runs of cached base pages, as addresses.
fn resident_runs(residency: &[u8], all: Range) -> Vec<Range> {
    let page_bytes = rustix::param::page_size() as u64;
    let mut end = all.start;
    let runs = residency.chunk_by(|a, b| a & 1 == b & 1).map(|run| {
        let start = end;
        end += run.len() as u64 * page_bytes;
        (run[0] & 1 == 1).then_some(Range::new(start, end))
    });
    runs.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_what_the_lowest_bits_say() {
        let page = rustix::param::page_size() as u64;
        let run = |first: u64, last: u64| Range::new((10 + first) * page, (10 + last) * page);
        let all = run(0, 6);
        assert_eq!(resident_runs(&[1, 0x81, 0, 0x80, 1, 1], all), [run(0, 2), run(4, 6)]);
        assert_eq!(resident_runs(&[0; 6], all), []);
        assert_eq!(resident_runs(&[1; 6], all), [all]);
    }

    /// Goal: pages that a file no longer has give an error, not a signal, and the others are
    /// mapped.
    #[test]
    fn a_file_that_shrinks_before_its_pages_are_mapped() {
        if !crate::sys::knows_populate() {
            println!("skipped: this kernel has no MADV_POPULATE_READ (Linux 5.14)");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let pages = 64 * rustix::param::page_size();
        std::fs::write(&path, vec![7; pages]).unwrap();
        let open = || OpenFile::open(CWD, &path, &path, OFlags::empty()).unwrap().unwrap();
        let populated =
            |file: &OpenFile| file.window(&mut file.candidates()).unwrap().unwrap().populate();
        assert_eq!(populated(&open()).bytes, pages as u64);
        let file = open();
        let window = file.window(&mut file.candidates()).unwrap().unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(1).unwrap();
        let cut = window.populate();
        assert_eq!((cut.bytes, cut.view.range().bytes()), (0, pages as u64));
        assert_eq!(cut.error.unwrap().raw_os_error(), Some(libc::EFAULT));
        assert_eq!(populated(&open()).bytes, rustix::param::page_size() as u64);
    }
}
