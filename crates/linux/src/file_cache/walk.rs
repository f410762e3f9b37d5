//! Finds the regular files below some paths, each once.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::vec;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};

use super::open_file::OpenFile;
use super::problem::FileProblem;

/// The object at a path.
#[derive(Debug)]
pub enum WalkEntry {
    /// A regular file.
    File(OpenFile),
    /// An empty regular file.
    Empty,
    /// A symbolic link, a device, a pipe, a socket.
    Other,
    /// A directory, or a file that was found before: nothing to count.
    Passed,
    /// An object that could not be opened.
    Skipped(FileProblem),
}

/// Walks directories without following symbolic links, and opens one file after another. A file
/// with several names, or below several of the paths, is found once. The walk holds one descriptor
/// for each level of directories, and a few words for each file.
pub struct FileWalk {
    roots: vec::IntoIter<PathBuf>,
    levels: Vec<OpenDirectory>,
    seen: BTreeSet<(u64, u64)>,
}

struct OpenDirectory {
    path: PathBuf,
    entries: Dir,
}

impl fmt::Debug for FileWalk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walk").field("named", &self.roots).finish_non_exhaustive()
    }
}

impl FileWalk {
    /// Returns a walk of these files and directories. A symbolic link among these paths is
    /// followed.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Self { roots: paths.into_iter(), levels: Vec::new(), seen: BTreeSet::new() }
    }

    /// Reads the next entry of the innermost directory.
    fn next_entry(&mut self) -> Option<WalkEntry> {
        let level = self.levels.last_mut()?;
        let entry = match level.entries.read() {
            None => {
                self.levels.pop();
                return None;
            }
            Some(Err(error)) => return Some(skipped(&level.path, error.into())),
            Some(Ok(entry)) => entry,
        };
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            return None;
        }
        let name = Path::new(OsStr::from_bytes(name));
        let path = level.path.join(name);
        let visited = match level.entries.fd() {
            Ok(folder) => visit(folder, name, &path, false, &mut self.seen),
            Err(error) => Err(error.into()),
        };
        Some(self.handle(path, visited))
    }

    fn handle(&mut self, path: PathBuf, visited: io::Result<VisitedEntry>) -> WalkEntry {
        match visited {
            Ok(VisitedEntry::Directory(entries)) => {
                self.levels.push(OpenDirectory { path, entries });
                WalkEntry::Passed
            }
            Ok(VisitedEntry::File(file)) => WalkEntry::File(file),
            Ok(VisitedEntry::Empty) => WalkEntry::Empty,
            Ok(VisitedEntry::Other) => WalkEntry::Other,
            Ok(VisitedEntry::Duplicate) => WalkEntry::Passed,
            Err(error) => skipped(&path, error),
        }
    }
}

impl Iterator for FileWalk {
    type Item = WalkEntry;

    fn next(&mut self) -> Option<WalkEntry> {
        loop {
            let found = if self.levels.is_empty() {
                let path = self.roots.next()?;
                let visited = visit(CWD, &path, &path, true, &mut self.seen);
                Some(self.handle(path, visited))
            } else {
                self.next_entry()
            };
            if found.is_some() {
                return found;
            }
        }
    }
}

fn skipped(path: &Path, error: io::Error) -> WalkEntry {
    WalkEntry::Skipped(FileProblem::from_io(path.to_owned(), error))
}

enum VisitedEntry {
    Directory(Dir),
    File(OpenFile),
    Empty,
    Other,
    /// The walk has found it before, under another name.
    Duplicate,
}

/// Reads the status of the entry `name` of a directory, and opens it if it is a directory or a file
/// that is not empty. Nothing else is opened: opening a device, or a file of the kernel (mostly of
/// size 0), may have side effects.
fn visit(
    folder: BorrowedFd<'_>,
    name: &Path,
    path: &Path,
    follow: bool,
    seen: &mut BTreeSet<(u64, u64)>,
) -> io::Result<VisitedEntry> {
    let at = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    let stat = statat(folder, name, at)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if !matches!(kind, FileType::RegularFile | FileType::Directory) {
        return Ok(VisitedEntry::Other);
    }
    if !seen.insert((stat.st_dev, stat.st_ino)) {
        return Ok(VisitedEntry::Duplicate);
    }
    if kind == FileType::RegularFile && stat.st_size == 0 {
        return Ok(VisitedEntry::Empty);
    }
    let link = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    if kind == FileType::Directory {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | link;
        let folder = openat(folder, name, flags, Mode::empty())?;
        return Ok(VisitedEntry::Directory(Dir::new(folder)?));
    }
    Ok(OpenFile::open(folder.as_fd(), name, path, link)?
        .map_or(VisitedEntry::Other, VisitedEntry::File))
}
