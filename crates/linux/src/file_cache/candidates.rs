//! Finds the parts of a file that may be cached, so that neither holes nor data that is only on
//! disk is queried page by page.
//!
//! The search is a bisection: it queries halves, and halves of those that have something. Where the
//! kernel counts cached pages (cachestat(2), Linux 6.5), it finds all of them. On older kernels it
//! finds only parts that hold data: pages of zeros from reads of a hole are cached, but not found.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use nodeward_model::Range;
use rustix::fs::{SeekFrom, fstatfs, seek};
use rustix::io::Errno;

use crate::sys;

/// Bytes of a file that are mapped at a time.
pub const WINDOW_BYTES: u64 = 1 << 30;
/// Parts of this size are not halved.
const LEAF_BYTES: u64 = 2 << 20;
/// Querying 64 pages one by one takes about as long as querying both halves of them.
const PAGES_PER_QUERY: u64 = 64;
/// Where cached pages cannot be counted, files up to this size are queried with their holes: it
/// takes a tenth of a second.
const UNSEARCHED_BYTES_MAX: u64 = 16 << 30;

/// The method that finds cached parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheSearch {
    /// No method: any part may be cached.
    Unsearched,
    /// Cached pages are counted.
    Cachestat,
    /// Parts with data are found. Only those can be cached, if `is_complete`.
    SeekData {
        /// True if holes of this file system cannot be cached.
        is_complete: bool,
    },
}

/// The contents of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CacheDensity {
    Empty,
    Sparse,
    Dense,
}

impl CacheSearch {
    /// Chooses the method for a file of base pages.
    pub fn for_file(file: &OwnedFd, bytes: u64) -> io::Result<Self> {
        if bytes <= LEAF_BYTES {
            return Ok(Self::Unsearched);
        }
        let system = FileSystemKind::from_magic(fstatfs(file)?.f_type.cast_unsigned());
        let is_counted = || sys::count_cached(file.as_fd(), Range::new(0, LEAF_BYTES)).is_ok();
        Ok(match system {
            FileSystemKind::Memory | FileSystemKind::Disk if is_counted() => Self::Cachestat,
            FileSystemKind::Memory => Self::SeekData { is_complete: true },
            FileSystemKind::Disk | FileSystemKind::Unknown if bytes <= UNSEARCHED_BYTES_MAX => {
                Self::Unsearched
            }
            FileSystemKind::Disk | FileSystemKind::Unknown => Self::SeekData { is_complete: false },
        })
    }

    fn query(self, file: &OwnedFd, part: Range) -> io::Result<CacheDensity> {
        match self {
            Self::Unsearched => Ok(CacheDensity::Dense),
            Self::Cachestat => {
                let cached = sys::count_cached(file.as_fd(), part)?;
                Ok(density(cached, part.bytes() / rustix::param::page_size() as u64))
            }
            Self::SeekData { .. } => data_density(file, part),
        }
    }
}

fn density(cached: u64, pages: u64) -> CacheDensity {
    match cached {
        0 => CacheDensity::Empty,
        _ if cached.saturating_mul(PAGES_PER_QUERY) >= pages => CacheDensity::Dense,
        _ => CacheDensity::Sparse,
    }
}

/// Queries whether a part holds data. Pages that are not written back yet count. A file system that
/// does not track holes reports all of a file as data.
fn data_density(file: &OwnedFd, part: Range) -> io::Result<CacheDensity> {
    let start = match seek(file, SeekFrom::Data(part.start)) {
        Ok(start) if start < part.end => start,
        Ok(_) | Err(Errno::NXIO) => return Ok(CacheDensity::Empty),
        Err(error) => return Err(error.into()),
    };
    let hole = seek(file, SeekFrom::Hole(start))?;
    Ok(if start == part.start && hole >= part.end {
        CacheDensity::Dense
    } else {
        CacheDensity::Sparse
    })
}

/// Kinds of file systems. Stacked ones (overlayfs, FUSE passthrough) map the files of the lower
/// file system, so the kernel's count of their own cached pages is useless.
enum FileSystemKind {
    /// Files are in memory or in swap; holes are in neither.
    Memory,
    /// A mapped page of a file is cached for that file.
    Disk,
    Unknown,
}

impl FileSystemKind {
    /// Classifies `statfs.f_type` (include/uapi/linux/magic.h).
    fn from_magic(magic: u64) -> Self {
        const TMPFS: u64 = 0x0102_1994;
        const EXT: u64 = 0xef53;
        const XFS: u64 = 0x5846_5342;
        const BTRFS: u64 = 0x9123_683e;
        const F2FS: u64 = 0xf2f5_2010;
        const NFS: u64 = 0x6969;
        const RAMFS: u64 = 0x8584_58f6;
        match magic {
            TMPFS => Self::Memory,
            EXT | XFS | BTRFS | F2FS | NFS | RAMFS => Self::Disk,
            _ => Self::Unknown,
        }
    }
}

/// The parts of one file in which pages may be cached, in ascending order.
#[derive(Debug)]
pub struct CandidateRanges {
    search: CacheSearch,
    /// Parts that were not queried yet; the first is at the end.
    pending: Vec<Range>,
    /// The remainder of a part that was found.
    remainder: Option<Range>,
    /// The number of queries.
    pub queries: u64,
    /// Bytes of holes that could hold cached pages but were not queried.
    pub unseen_hole_bytes: u64,
}

impl CandidateRanges {
    /// Returns the parts of a file of `bytes` bytes, in whole pages.
    pub fn new(sight: CacheSearch, bytes: u64) -> Self {
        let pending = vec![Range::new(0, bytes)];
        Self { search: sight, pending, remainder: None, queries: 0, unseen_hole_bytes: 0 }
    }

    /// Returns the parts in the next multiple of [`WINDOW_BYTES`] that has any.
    pub fn next_window(&mut self, file: &OwnedFd) -> io::Result<Vec<Range>> {
        let mut window: Vec<Range> = Vec::new();
        while let Some(part) = self.next_range(file)? {
            let first = window.first().unwrap_or(&part).start;
            let within = Range::new(first, (first / WINDOW_BYTES + 1) * WINDOW_BYTES);
            let Some(piece) = part.intersection(within) else {
                self.remainder = Some(part);
                break;
            };
            window.push(piece);
            self.remainder = (piece.end < part.end).then(|| Range::new(piece.end, part.end));
        }
        Ok(window)
    }

    fn next_range(&mut self, file: &OwnedFd) -> io::Result<Option<Range>> {
        if let Some(rest) = self.remainder.take() {
            return Ok(Some(rest));
        }
        while let Some(part) = self.pending.pop() {
            self.queries += 1;
            match self.search.query(file, part)? {
                CacheDensity::Sparse if part.bytes() > LEAF_BYTES => {
                    self.pending.extend(halves(part));
                }
                CacheDensity::Sparse | CacheDensity::Dense => return Ok(Some(part)),
                CacheDensity::Empty
                    if self.search == (CacheSearch::SeekData { is_complete: false }) =>
                {
                    self.unseen_hole_bytes += part.bytes();
                }
                CacheDensity::Empty => {}
            }
        }
        Ok(None)
    }
}

/// Returns the second half and the first. A part that begins at a multiple of a power of two not
/// below its length is cut at a multiple of half of that power.
fn halves(part: Range) -> [Range; 2] {
    let middle = part.start + part.bytes().next_power_of_two() / 2;
    [Range::new(middle, part.end), Range::new(part.start, middle)]
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;

    const GIB: u64 = 1 << 30;

    /// Returns all windows of a file, the number of queries and the bytes of holes not queried.
    fn windows(sight: CacheSearch, file: File, bytes: u64) -> (Vec<Vec<Range>>, u64, u64) {
        let mut parts = CandidateRanges::new(sight, bytes);
        let file = file.into();
        let next = || Some(parts.next_window(&file).unwrap()).filter(|found| !found.is_empty());
        let found = std::iter::from_fn(next).collect();
        (found, parts.queries, parts.unseen_hole_bytes)
    }

    /// Goal: data is found without querying holes page by page, and skipped holes are reported. A
    /// file of 4 TiB with a page in the first, the middle and the last 2 MiB is halved 21 times
    /// (2^42 / 2^21); each halving queries two parts, and the first query covers all.
    #[test]
    fn data_is_found_between_holes() {
        let file = tempfile::tempfile().unwrap();
        let bytes = 4096 * GIB;
        file.set_len(bytes).unwrap();
        let last = bytes - LEAF_BYTES;
        for at in [0, bytes / 2, last] {
            file.write_all_at(&[7], at).unwrap();
        }
        let (found, asked, unseen) =
            windows(CacheSearch::SeekData { is_complete: false }, file, bytes);
        let part = |start| vec![Range::new(start, start + LEAF_BYTES)];
        assert_eq!(found, [part(0), part(bytes / 2), part(last)]);
        assert!(asked <= 1 + 3 * 2 * 21, "{asked}");
        assert_eq!(unseen, bytes - 3 * LEAF_BYTES);
    }

    /// Goal: without a method the whole file is returned, window by window, to its odd end.
    #[test]
    fn all_of_a_file_is_its_windows() {
        let (found, asked, unseen) =
            windows(CacheSearch::Unsearched, tempfile::tempfile().unwrap(), 2 * GIB + 4096);
        let all = [(0, GIB), (GIB, 2 * GIB), (2 * GIB, 2 * GIB + 4096)];
        assert_eq!(found, all.map(|(start, end)| vec![Range::new(start, end)]));
        assert_eq!((asked, unseen), (1, 0));
    }

    #[test]
    fn halves_begin_at_powers_of_two() {
        let cut = |start, end| halves(Range::new(start, end)).map(|half| (half.start, half.end));
        assert_eq!(cut(0, 8), [(4, 8), (0, 4)]);
        assert_eq!(cut(0, 5), [(4, 5), (0, 4)]);
        assert_eq!(cut(8, 11), [(10, 11), (8, 10)]);
    }

    /// Goal: the bisection ends where enough is cached for a query page by page: one page in 64.
    #[test]
    fn much_is_one_in_64() {
        let pages = 512;
        let all = [0, 7, 8, 512].map(|cached| density(cached, pages));
        assert_eq!(
            all,
            [CacheDensity::Empty, CacheDensity::Sparse, CacheDensity::Dense, CacheDensity::Dense]
        );
    }
}
