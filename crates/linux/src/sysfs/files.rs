//! Small kernel files: one open and one read each, into a buffer that is used again.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use nodeward_model::mask::{Id, Mask};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

/// What went wrong while reading kernel files.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SysfsError {
    /// A file that every kernel has could not be read.
    #[error("cannot read {path}: {source}; check that /sys is mounted and readable here")]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file says something that no known kernel says.
    #[error("{path}:{line}: found '{found}', wanted {wanted}; please report it with this line")]
    Parse {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What stands there.
        found: String,
        /// What was wanted.
        wanted: &'static str,
    },
}

/// An open directory; files are opened relative to it.
pub(super) struct Dir {
    fd: OwnedFd,
    path: PathBuf,
}

impl Dir {
    pub(super) fn open(path: PathBuf) -> Result<Self, SysfsError> {
        match rustix::fs::open(&path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(fd) => Ok(Self { fd, path }),
            Err(errno) => Err(SysfsError::Read { path, source: errno.into() }),
        }
    }

    pub(super) fn open_if_present(path: PathBuf) -> Result<Option<Self>, SysfsError> {
        match Self::open(path) {
            Err(SysfsError::Read { source, .. }) if is_missing(&source) => Ok(None),
            other => other.map(Some),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The text of a file; `None` if the kernel does not have it.
    pub(super) fn read<'a>(
        &'a self,
        name: &'a str,
        buffer: &'a mut Buffer,
    ) -> Result<Option<File<'a>>, SysfsError> {
        match self.fill(name, buffer) {
            Ok(length) => self.text(name, &buffer.bytes[..length]).map(Some),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(self.unreadable(name, errno)),
        }
    }

    /// The text of a file that every kernel has.
    pub(super) fn require<'a>(
        &'a self,
        name: &'a str,
        buffer: &'a mut Buffer,
    ) -> Result<File<'a>, SysfsError> {
        let missing = || self.unreadable(name, Errno::NOENT);
        self.read(name, buffer)?.ok_or_else(missing)
    }

    fn fill(&self, name: &str, buffer: &mut Buffer) -> Result<usize, Errno> {
        let file = openat(&self.fd, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut length = 0;
        loop {
            match rustix::io::read(&file, &mut buffer.bytes[length..]) {
                Ok(read) => length += read,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            }
            if length < buffer.bytes.len() {
                return Ok(length);
            }
            buffer.bytes.resize(2 * length, 0);
        }
    }

    fn text<'a>(&'a self, name: &'a str, bytes: &'a [u8]) -> Result<File<'a>, SysfsError> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(File { dir: self, name, text }),
            Err(_) => {
                let found = String::from_utf8_lossy(bytes);
                Err(File { dir: self, name, text: &found }.unexpected("text in UTF-8"))
            }
        }
    }

    fn unreadable(&self, name: &str, errno: Errno) -> SysfsError {
        SysfsError::Read { path: self.path.join(name), source: errno.into() }
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Room for one file.
pub(super) struct Buffer {
    bytes: Vec<u8>,
}

impl Default for Buffer {
    fn default() -> Self {
        Self { bytes: vec![0; 8192] } // sysfs files are one page at most; meminfo is smaller
    }
}

/// The text of one file, which knows its name for errors.
pub(super) struct File<'a> {
    dir: &'a Dir,
    name: &'a str,
    pub(super) text: &'a str,
}

impl File<'_> {
    pub(super) fn list<T: Id>(&self) -> Result<Mask<T>, SysfsError> {
        self.text.parse().map_err(|_| self.unexpected("a list such as 0-3,8"))
    }

    pub(super) fn number<N: FromStr>(&self) -> Result<N, SysfsError> {
        self.text.trim().parse().map_err(|_| self.unexpected("a number"))
    }

    /// An error about the first line.
    pub(super) fn unexpected(&self, wanted: &'static str) -> SysfsError {
        self.unexpected_at(1, wanted)
    }

    pub(super) fn unexpected_at(&self, line: usize, wanted: &'static str) -> SysfsError {
        let found = self.text.lines().nth(line - 1).unwrap_or("").trim();
        SysfsError::Parse {
            path: self.dir.path.join(self.name),
            line,
            found: found.chars().take(80).collect(),
            wanted,
        }
    }
}

impl fmt::Debug for File<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}: {:?}", self.dir.path.display(), self.name, self.text)
    }
}
