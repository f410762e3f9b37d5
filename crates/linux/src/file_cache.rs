//! The page cache of files, mapped by us so that it can be moved like memory of a process.
//!
//! Parts that may be in memory are found by counts and by data (`parts`), and the pages of them
//! that are by mincore(2). Only those are mapped, by MADV_POPULATE_READ: so nothing is read from a
//! disk, and a file that shrinks meanwhile is an error, not a SIGBUS. No byte is looked at.

mod open;
mod parts;
mod problem;
mod walk;

use std::path::PathBuf;

use nodeward_machine::{Error, Result};
use nodeward_model::Range;

use crate::sys::{self, FileView};
use open::{OpenFile, Populated, Window, map_again};
use parts::Parts;
pub use problem::{Problem, Trouble};
use walk::{Found, Walk};

pub use open::WINDOW_BYTES;

/// A batch is full with so many cached bytes: enough for workers to find their pace, and their page
/// tables take no more than 1/512 of that.
const BATCH_BYTES: u64 = 8 << 30;
/// A batch is full with so many mappings; a process may have 65530 (`vm.max_map_count`).
const BATCH_MAPPINGS: usize = 1024;
/// So many problems are told one by one; the others are only counted.
const PROBLEMS_TOLD: usize = 20;

/// Checks that this kernel can map what is in memory without touching it.
///
/// # Errors
/// `Unsupported` before Linux 5.14.
pub fn check_kernel() -> Result<()> {
    if sys::knows_populate() {
        return Ok(());
    }
    Err(Error::Unsupported {
        what: "moving the page cache of files",
        why: "madvise(MADV_POPULATE_READ) is missing; run Linux 5.14 or newer".to_owned(),
    })
}

/// What was found on the way through files.
#[derive(Debug, Default)]
pub struct Looked {
    /// Regular files of which the kernel told what is in memory.
    pub files: u64,
    /// Those of them that had pages in memory.
    pub files_cached: u64,
    /// Bytes that were in memory, in whole pages.
    pub cached_bytes: u64,
    /// Bytes of files that were asked about page by page.
    pub looked_bytes: u64,
    /// Questions as to which parts of large files may be in memory.
    pub asked: u64,
    /// Bytes of holes that were not looked at, because this kernel does not count what was read of
    /// them (before Linux 6.5).
    pub holes_bytes: u64,
    /// What is no regular file: symbolic links, devices, pipes, sockets.
    pub others: u64,
    /// Files, directories and parts of files that were left out.
    pub problems: u64,
    /// Those of them that a privilege would have helped.
    pub not_permitted: u64,
    /// The first of them.
    pub first_problems: Vec<Problem>,
}

impl Looked {
    fn leave(&mut self, problem: Problem) {
        self.problems += 1;
        let permission = matches!(problem.trouble, Trouble::Unreadable | Trouble::Untold);
        self.not_permitted += u64::from(permission);
        if self.first_problems.len() < PROBLEMS_TOLD {
            self.first_problems.push(problem);
        }
    }
}

/// Cached parts of files that are mapped as long as the value lives.
#[derive(Debug)]
pub struct Batch {
    /// The mappings, and the parts of them from the first to the last cached page.
    views: Vec<(FileView, Range)>,
    mapped_bytes: u64,
    is_huge: bool,
}

impl Batch {
    /// Where they are mapped. Pages that were not cached are in these ranges too, but not mapped.
    pub fn ranges(&self) -> Vec<Range> {
        self.views.iter().map(|&(_, range)| range).collect()
    }

    /// Maps what is in memory of these ranges, each within one of the batch's, and was unmapped
    /// meanwhile. The kernel unmaps pages before it knows whether it can drop or split them.
    pub fn map_again(&self, ranges: &[Range]) {
        for &range in ranges {
            let view = self.views.iter().find(|(_, mapped)| mapped.and(range).is_some());
            view.iter().for_each(|(view, _)| map_again(view, range));
        }
    }

    /// Whether its pages are those of a hugetlb pool; a batch never mixes.
    pub fn is_huge(&self) -> bool {
        self.is_huge
    }

    /// Bytes of pages that were mapped. The kernel may unmap some at any time: when it needs memory
    /// or makes huge pages of them for somebody else.
    pub fn mapped_bytes(&self) -> u64 {
        self.mapped_bytes
    }
}

/// Goes through files and directories, batch by batch.
#[derive(Debug)]
pub struct Batches {
    walk: Walk,
    open: Option<Progress>,
    /// The first window of the next batch.
    held: Option<Window>,
    looked: Looked,
}

/// How far we are with a file.
#[derive(Debug)]
struct Progress {
    file: OpenFile,
    parts: Parts,
    is_cached: bool,
}

impl Batches {
    /// Of the regular files at or below these paths. Inside directories no symbolic link is
    /// followed.
    pub fn of(paths: Vec<PathBuf>) -> Self {
        Self { walk: Walk::new(paths), open: None, held: None, looked: Looked::default() }
    }

    /// Maps the next cached pages: up to a bound on their bytes and on the number of mappings.
    /// `None` if there are no more, or if `stop` says so, which is asked often.
    pub fn next_batch(&mut self, stop: impl Fn() -> bool) -> Option<Batch> {
        let mut batch = Batch { views: Vec::new(), mapped_bytes: 0, is_huge: false };
        let mut cached_bytes = 0;
        while cached_bytes < BATCH_BYTES && batch.views.len() < BATCH_MAPPINGS {
            let Some(window) = self.held.take().or_else(|| self.next_window(&stop)) else { break };
            if batch.views.is_empty() {
                batch.is_huge = window.is_huge;
            } else if batch.is_huge != window.is_huge {
                self.held = Some(window);
                break;
            }
            cached_bytes += window.cached_bytes();
            let Populated { view, range, bytes, error } = window.populate();
            if let (Some(error), Some(open)) = (error, &self.open) {
                self.looked.leave(Problem::of_pages(open.file.path.clone(), error));
            }
            batch.mapped_bytes += bytes;
            batch.views.push((view, range));
        }
        (!batch.views.is_empty() && !stop()).then_some(batch)
    }

    /// What was found until now.
    pub fn into_looked(self) -> Looked {
        self.looked
    }

    /// Counts the bytes in memory without mapping a page, as long as `stop` does not say so.
    pub fn cached_bytes(mut self, stop: impl Fn() -> bool) -> u64 {
        while self.next_window(&stop).is_some() {}
        self.looked.cached_bytes
    }

    /// The next part of a file that has something in memory.
    fn next_window(&mut self, stop: &impl Fn() -> bool) -> Option<Window> {
        while !stop() {
            let Some(open) = &mut self.open else {
                self.open_next()?;
                continue;
            };
            match open.file.window(&mut open.parts) {
                Ok(Some(window)) => {
                    self.looked.looked_bytes += window.looked_bytes;
                    let bytes = window.cached_bytes();
                    if bytes > 0 {
                        self.looked.cached_bytes += bytes;
                        self.looked.files_cached += u64::from(!open.is_cached);
                        open.is_cached = true;
                        return Some(window);
                    }
                }
                Ok(None) => self.close(),
                Err(error) => {
                    self.looked.leave(Problem::of(open.file.path.clone(), error));
                    self.close();
                }
            }
        }
        None
    }

    fn close(&mut self) {
        if let Some(Progress { parts, .. }) = self.open.take() {
            self.looked.asked += parts.asked;
            self.looked.holes_bytes += parts.unseen_bytes;
        }
    }

    /// Opens the next file, or counts what stands in its place; `None` after the last.
    fn open_next(&mut self) -> Option<()> {
        match self.walk.next()? {
            Found::File(file) => match file.trouble() {
                Some(trouble) => {
                    self.looked.leave(Problem { path: file.path, trouble, error: None });
                }
                None => {
                    self.looked.files += 1;
                    self.open = Some(Progress { parts: file.parts(), file, is_cached: false });
                }
            },
            Found::Empty => self.looked.files += 1,
            Found::Other => self.looked.others += 1,
            Found::Left(problem) => self.looked.leave(problem),
        }
        Some(())
    }
}
