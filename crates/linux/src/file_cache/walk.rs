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

use super::open::OpenFile;
use super::problem::Problem;

/// The object at a path.
#[derive(Debug)]
pub enum Found {
    /// A regular file.
    File(OpenFile),
    /// An empty regular file.
    Empty,
    /// A symbolic link, a device, a pipe, a socket.
    Other,
    /// An object that could not be opened.
    Left(Problem),
}

/// Walks directories without following symbolic links, and opens one file after another. A file
/// with several names, or below several of the paths, is found once. The walk holds one descriptor
/// for each level of directories, and a few words for each file.
pub struct Walk {
    named: vec::IntoIter<PathBuf>,
    levels: Vec<Level>,
    seen: BTreeSet<(u64, u64)>,
}

struct Level {
    path: PathBuf,
    entries: Dir,
}

impl fmt::Debug for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Walk").field("named", &self.named).finish_non_exhaustive()
    }
}

impl Walk {
    /// Returns a walk of these files and directories. A symbolic link among these paths is
    /// followed.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        Self { named: paths.into_iter(), levels: Vec::new(), seen: BTreeSet::new() }
    }

    /// Reads the next entry of the innermost directory.
    fn next_entry(&mut self) -> Option<Found> {
        let level = self.levels.last_mut()?;
        let entry = match level.entries.read() {
            None => {
                self.levels.pop();
                return None;
            }
            Some(Err(error)) => return Some(left(&level.path, error.into())),
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
        self.enter(path, visited)
    }

    fn enter(&mut self, path: PathBuf, visited: io::Result<Visited>) -> Option<Found> {
        match visited {
            Ok(Visited::Folder(entries)) => {
                self.levels.push(Level { path, entries });
                None
            }
            Ok(Visited::File(file)) => Some(Found::File(file)),
            Ok(Visited::Empty) => Some(Found::Empty),
            Ok(Visited::Other) => Some(Found::Other),
            Ok(Visited::Again) => None,
            Err(error) => Some(left(&path, error)),
        }
    }
}

impl Iterator for Walk {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            let found = if self.levels.is_empty() {
                let path = self.named.next()?;
                let visited = visit(CWD, &path, &path, true, &mut self.seen);
                self.enter(path, visited)
            } else {
                self.next_entry()
            };
            if found.is_some() {
                return found;
            }
        }
    }
}

fn left(path: &Path, error: io::Error) -> Found {
    Found::Left(Problem::of(path.to_owned(), error))
}

enum Visited {
    Folder(Dir),
    File(OpenFile),
    Empty,
    Other,
    /// The walk has found it before, under another name.
    Again,
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
) -> io::Result<Visited> {
    let at = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    let stat = statat(folder, name, at)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if !matches!(kind, FileType::RegularFile | FileType::Directory) {
        return Ok(Visited::Other);
    }
    if !seen.insert((stat.st_dev, stat.st_ino)) {
        return Ok(Visited::Again);
    }
    if kind == FileType::RegularFile && stat.st_size == 0 {
        return Ok(Visited::Empty);
    }
    let link = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    if kind == FileType::Directory {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | link;
        let folder = openat(folder, name, flags, Mode::empty())?;
        return Ok(Visited::Folder(Dir::new(folder)?));
    }
    Ok(OpenFile::open(folder.as_fd(), name, path, link)?.map_or(Visited::Other, Visited::File))
}
