//! The page cache of files, mapped by this process so that it can be moved like the memory of a
//! process.
//!
//! Parts that may be cached are found by page counts or by data ranges (`candidates`); mincore(2)
//! tells which of their pages are. Only those pages are mapped, by MADV_POPULATE_READ. So nothing
//! is read from a disk, and a file that shrinks meanwhile gives an error instead of a SIGBUS. No
//! byte is accessed.

mod candidates;
mod open_file;
mod problem;
mod walk;

use std::path::PathBuf;

use nodeward_machine::{Error, Result};
use nodeward_model::Range;

use crate::sys::{self, FileView};
use candidates::CandidateRanges;
use open_file::{FileWindow, OpenFile, PopulatedView, remap_cached};
pub use problem::{FileProblem, ProblemKind};
use walk::{FileWalk, WalkEntry};

pub use candidates::WINDOW_BYTES;

/// The cached bytes that fill a batch: enough for workers to adapt their speed. The page tables of
/// a batch take no more than 1/512 of that.
const BATCH_BYTES: u64 = 8 << 30;
/// The mappings that fill a batch; a process may have 65530 (`vm.max_map_count`).
const BATCH_MAPPINGS: usize = 1024;
/// The problems that are listed one by one; further ones are only counted.
const PROBLEMS_LISTED_MAX: usize = 20;

/// Checks that this kernel can map cached pages without accessing them.
///
/// # Errors
/// `Unsupported` before Linux 5.14.
pub fn check_kernel() -> Result<()> {
    if sys::knows_populate() {
        return Ok(());
    }
    Err(Error::Unsupported {
        action: "moving the page cache of files",
        reason: "madvise(MADV_POPULATE_READ) is missing; run Linux 5.14 or newer".to_owned(),
    })
}

/// Counts of the files that were searched.
#[derive(Debug, Default)]
pub struct CacheScan {
    /// Regular files whose cached pages the kernel reported.
    pub files: u64,
    /// Those of `files` with cached pages.
    pub files_cached: u64,
    /// Cached bytes, in whole pages.
    pub cached_bytes: u64,
    /// Bytes that were queried page by page.
    pub scanned_bytes: u64,
    /// Queries for the parts of large files that may be cached.
    pub queries: u64,
    /// Bytes of holes that were not queried, because this kernel cannot count cached pages of holes
    /// that were read (before Linux 6.5).
    pub holes_bytes: u64,
    /// Entries that are no regular files: symbolic links, devices, pipes, sockets.
    pub others: u64,
    /// Files, directories and parts of files that were skipped.
    pub problems: u64,
    /// Those of `problems` that a privilege would have avoided.
    pub not_permitted: u64,
    /// The first problems, at most 20.
    pub first_problems: Vec<FileProblem>,
}

impl CacheScan {
    fn record_problem(&mut self, problem: FileProblem) {
        self.problems += 1;
        let permission = matches!(problem.kind, ProblemKind::Unreadable | ProblemKind::Untold);
        self.not_permitted += u64::from(permission);
        if self.first_problems.len() < PROBLEMS_LISTED_MAX {
            self.first_problems.push(problem);
        }
    }
}

/// Cached parts of files, mapped as long as the value lives.
#[derive(Debug)]
pub struct MappedBatch {
    /// The mappings, each with its range from the first to the last cached page.
    views: Vec<(FileView, Range)>,
    mapped_bytes: u64,
    is_huge: bool,
}

impl MappedBatch {
    /// Returns the mapped ranges. They also contain pages that were not cached; those are not
    /// mapped.
    pub fn ranges(&self) -> Vec<Range> {
        self.views.iter().map(|&(_, range)| range).collect()
    }

    /// Maps the cached pages of these ranges again, each of which is within one range of the batch.
    /// The kernel unmaps pages before it knows whether it can drop or split them.
    pub fn remap_cached(&self, ranges: &[Range]) {
        for &range in ranges {
            let view = self.views.iter().find(|(_, mapped)| mapped.intersection(range).is_some());
            view.iter().for_each(|(view, _)| remap_cached(view, range));
        }
    }

    /// Returns true if its pages are those of a hugetlb pool; a batch never mixes the two kinds.
    pub fn is_huge(&self) -> bool {
        self.is_huge
    }

    /// Returns the bytes of pages that were mapped. The kernel may unmap some at any time: when it
    /// needs memory, or when it collapses them to huge pages for another process.
    pub fn mapped_bytes(&self) -> u64 {
        self.mapped_bytes
    }
}

/// Walks files and directories and returns their cached pages in batches.
#[derive(Debug)]
pub struct MappedBatches {
    walk: FileWalk,
    current: Option<OpenFileProgress>,
    /// The first window of the next batch.
    next_window: Option<FileWindow>,
    scan: CacheScan,
}

/// The progress in one file.
#[derive(Debug)]
struct OpenFileProgress {
    file: OpenFile,
    parts: CandidateRanges,
    is_cached: bool,
}

impl MappedBatches {
    /// Returns the batches of the regular files at or below these paths. Symbolic links inside
    /// directories are not followed.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Self {
            walk: FileWalk::new(paths),
            current: None,
            next_window: None,
            scan: CacheScan::default(),
        }
    }

    /// Maps the next cached pages, up to a limit on their bytes and on the number of mappings.
    /// `None` if there are no more, or if `stop` returns true, which is polled often.
    pub fn next_batch(&mut self, stop: impl Fn() -> bool) -> Option<MappedBatch> {
        let mut batch = MappedBatch { views: Vec::new(), mapped_bytes: 0, is_huge: false };
        let mut cached_bytes = 0;
        while cached_bytes < BATCH_BYTES && batch.views.len() < BATCH_MAPPINGS {
            let Some(window) = self.next_window.take().or_else(|| self.next_window(&stop)) else {
                break;
            };
            if batch.views.is_empty() {
                batch.is_huge = window.is_huge;
            } else if batch.is_huge != window.is_huge {
                self.next_window = Some(window);
                break;
            }
            cached_bytes += window.cached_bytes();
            let PopulatedView { view, range, bytes, error } = window.populate();
            if let (Some(error), Some(open)) = (error, &self.current) {
                self.scan.record_problem(FileProblem::from_populate(open.file.path.clone(), error));
            }
            batch.mapped_bytes += bytes;
            batch.views.push((view, range));
        }
        (!batch.views.is_empty() && !stop()).then_some(batch)
    }

    /// Returns the counts so far.
    pub fn into_scan(self) -> CacheScan {
        self.scan
    }

    /// Counts the cached bytes without mapping a page, until `stop` returns true.
    pub fn cached_bytes(mut self, stop: impl Fn() -> bool) -> u64 {
        while self.next_window(&stop).is_some() {}
        self.scan.cached_bytes
    }

    /// Returns the next part of a file with cached pages.
    fn next_window(&mut self, stop: &impl Fn() -> bool) -> Option<FileWindow> {
        while !stop() {
            let Some(open) = &mut self.current else {
                self.open_next()?;
                continue;
            };
            match open.file.window(&mut open.parts) {
                Ok(Some(window)) => {
                    self.scan.scanned_bytes += window.scanned_bytes;
                    let bytes = window.cached_bytes();
                    if bytes > 0 {
                        self.scan.cached_bytes += bytes;
                        self.scan.files_cached += u64::from(!open.is_cached);
                        open.is_cached = true;
                        return Some(window);
                    }
                }
                Ok(None) => self.finish_file(),
                Err(error) => {
                    self.scan.record_problem(FileProblem::from_io(open.file.path.clone(), error));
                    self.finish_file();
                }
            }
        }
        None
    }

    fn finish_file(&mut self) {
        if let Some(OpenFileProgress { parts, .. }) = self.current.take() {
            self.scan.queries += parts.queries;
            self.scan.holes_bytes += parts.unseen_hole_bytes;
        }
    }

    /// Opens the next file, or counts the entry that cannot be opened; `None` after the last entry.
    fn open_next(&mut self) -> Option<()> {
        match self.walk.next()? {
            WalkEntry::File(file) => match file.problem() {
                Some(trouble) => {
                    self.scan.record_problem(FileProblem {
                        path: file.path,
                        kind: trouble,
                        error: None,
                    });
                }
                None => {
                    self.scan.files += 1;
                    self.current =
                        Some(OpenFileProgress { parts: file.candidates(), file, is_cached: false });
                }
            },
            WalkEntry::Empty => self.scan.files += 1,
            WalkEntry::Other => self.scan.others += 1,
            WalkEntry::Passed => {}
            WalkEntry::Skipped(problem) => self.scan.record_problem(problem),
        }
        Some(())
    }
}
