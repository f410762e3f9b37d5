//! One file: what of it is in memory, and those pages mapped.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nodeward_model::Range;
use rustix::fs::{
    Access, AtFlags, CWD, FileType, Mode, OFlags, Stat, accessat, fstat, fstatfs, openat,
};
use rustix::io::Errno;

use super::problem::Trouble;
use crate::sys::FileView;

/// So much of a file is mapped at a time.
pub const WINDOW_BYTES: u64 = 1 << 30;

/// `statfs.f_type` of hugetlbfs (include/uapi/linux/magic.h).
const HUGETLBFS: u64 = 0x9584_58f6;

/// A regular file that is open for reading.
#[derive(Debug)]
pub struct OpenFile {
    /// Where it was found.
    pub path: PathBuf,
    file: OwnedFd,
    bytes: u64,
    page_bytes: u64,
    knowledge: Knowledge,
}

/// What we may believe of the kernel's answer which pages are in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knowledge {
    /// All of it.
    Answer,
    /// All pages are in memory, whatever the answer says.
    All,
    /// Nothing.
    None(Trouble),
}

impl OpenFile {
    /// Opens what is called `name` in a directory; `None` if that is no regular file (any more).
    pub fn open(
        folder: BorrowedFd<'_>,
        name: &Path,
        path: &Path,
        link: OFlags,
    ) -> io::Result<Option<Self>> {
        // What stands here now may not be what was looked at: a pipe would wait for a writer.
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
        let knowledge = match is_base(page_bytes) {
            true if owned || may_write(&file) => Knowledge::Answer,
            true => Knowledge::None(Trouble::Untold),
            false => of_huge_pages(&stat),
        };
        let bytes = stat.st_size.cast_unsigned();
        Ok(Some(Self { path: path.to_owned(), file, bytes, page_bytes, knowledge }))
    }

    /// Why it cannot be known what of the file is in memory; `None` if it can.
    pub fn trouble(&self) -> Option<Trouble> {
        match self.knowledge {
            Knowledge::None(trouble) => Some(trouble),
            Knowledge::Answer | Knowledge::All => None,
        }
    }

    /// Maps the part of the file that begins at `offset`, a multiple of [`WINDOW_BYTES`], and finds
    /// out what of it is in memory; `None` at the end of the file. Reads nothing.
    pub fn window(&self, offset: u64) -> io::Result<Option<Window>> {
        if offset >= self.bytes {
            return Ok(None);
        }
        let bytes = (self.bytes - offset).next_multiple_of(self.page_bytes).min(WINDOW_BYTES);
        let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
        let page_bytes = usize::try_from(self.page_bytes).map_err(io::Error::other)?;
        let view = FileView::map(self.file.as_fd(), offset, bytes, page_bytes)?;
        let cached = match self.knowledge {
            Knowledge::Answer => cached(&view, view.range())?,
            Knowledge::All => vec![view.range()],
            Knowledge::None(_) => Vec::new(),
        };
        Ok(Some(Window { view, cached, is_huge: !is_base(self.page_bytes) }))
    }
}

/// A part of a file that is mapped.
#[derive(Debug)]
pub struct Window {
    view: FileView,
    cached: Vec<Range>,
    /// Whether its pages are those of a hugetlb pool.
    pub is_huge: bool,
}

impl Window {
    /// Bytes that are in memory.
    pub fn cached_bytes(&self) -> u64 {
        self.cached.iter().map(|range| range.bytes()).sum()
    }

    /// Maps the pages that are in memory, and no others, up to the first that cannot be mapped: one
    /// behind the new end of the file, for one. A page that left memory since it was looked at is
    /// read again.
    pub fn populate(self) -> Populated {
        let mut populated = Populated { view: self.view, bytes: 0, error: None };
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
pub struct Populated {
    /// The mapping.
    pub view: FileView,
    /// Bytes that were mapped for certain.
    pub bytes: u64,
    /// What ended that early.
    pub error: Option<io::Error>,
}

/// The size of the file's pages. (Other file systems, too, call large blocks good to read.)
fn page_bytes(file: &OwnedFd, stat: &Stat) -> io::Result<u64> {
    let base = rustix::param::page_size() as u64;
    let block = u64::try_from(stat.st_blksize).unwrap_or(base);
    let is_huge = block > base && u64::try_from(fstatfs(file)?.f_type) == Ok(HUGETLBFS);
    Ok(if is_huge { block } else { base })
}

fn is_base(page_bytes: u64) -> bool {
    page_bytes == rustix::param::page_size() as u64
}

/// mincore(2) sees huge pages only where they are mapped. But they live in memory alone, so a file
/// without holes is in memory whole.
fn of_huge_pages(stat: &Stat) -> Knowledge {
    match stat.st_blocks.saturating_mul(512) >= stat.st_size {
        true => Knowledge::All,
        false => Knowledge::None(Trouble::Holes),
    }
}

/// Whether the kernel would let us write; it then tells us what is in memory although the file is
/// not ours (`can_do_mincore` in mm/mincore.c). The flag O_NOATIME asks about the other half of
/// that rule, in the same words: `inode_owner_or_capable`.
fn may_write(file: &OwnedFd) -> bool {
    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    accessat(CWD, itself, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

/// The pages of a part of a view that are in memory.
fn cached(view: &FileView, part: Range) -> io::Result<Vec<Range>> {
    Ok(runs(&view.residency(part)?, part))
}

/// Maps what is in memory of a part of a view. What cannot be mapped is left out.
pub fn map_again(view: &FileView, part: Range) {
    for range in cached(view, part).unwrap_or_default() {
        // The file has been cut, or the page went away in this moment.
        view.populate(range).ok();
    }
}

/// The runs of base pages in memory, as addresses.
fn runs(residency: &[u8], all: Range) -> Vec<Range> {
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
        assert_eq!(runs(&[1, 0x81, 0, 0x80, 1, 1], all), [run(0, 2), run(4, 6)]);
        assert_eq!(runs(&[0; 6], all), []);
        assert_eq!(runs(&[1; 6], all), [all]);
    }

    /// Goal: pages that a file no longer has are an error, not a signal, and the others are mapped.
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
        let populated = |file: &OpenFile| file.window(0).unwrap().unwrap().populate();
        assert_eq!(populated(&open()).bytes, pages as u64);
        let window = open().window(0).unwrap().unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_len(1).unwrap();
        let cut = window.populate();
        assert_eq!((cut.bytes, cut.view.range().bytes()), (0, pages as u64));
        assert_eq!(cut.error.unwrap().raw_os_error(), Some(libc::EFAULT));
        assert_eq!(populated(&open()).bytes, rustix::param::page_size() as u64);
    }
}
