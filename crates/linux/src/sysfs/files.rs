//! Small kernel files: one open and one read each, into a reused buffer.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use nodeward_machine::{Error, Result};
use nodeward_model::Escape as _;
use nodeward_model::mask::{Id, Mask};
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

/// An open directory; files are opened relative to it.
pub(super) struct Dir {
    fd: OwnedFd,
    path: PathBuf,
}

impl Dir {
    pub(super) fn open(path: PathBuf) -> Result<Self> {
        match rustix::fs::open(&path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(fd) => Ok(Self { fd, path }),
            Err(errno) => Err(Error::Read { path, source: errno.into() }),
        }
    }

    pub(super) fn open_if_present(path: PathBuf) -> Result<Option<Self>> {
        match Self::open(path) {
            Err(Error::Read { source, .. }) if is_missing(&source) => Ok(None),
            other => other.map(Some),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the text of a file; `None` if the kernel does not have it.
    pub(super) fn read<'a>(
        &'a self,
        name: &'a str,
        buffer: &'a mut ReadBuffer,
    ) -> Result<Option<SysfsFile<'a>>> {
        match self.fill(name, buffer) {
            Ok(length) => self.text(name, &buffer.bytes[..length]).map(Some),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(errno) => Err(self.unreadable(name, errno)),
        }
    }

    /// Returns the text of a file that every kernel has.
    pub(super) fn require<'a>(
        &'a self,
        name: &'a str,
        buffer: &'a mut ReadBuffer,
    ) -> Result<SysfsFile<'a>> {
        let missing = || self.unreadable(name, Errno::NOENT);
        self.read(name, buffer)?.ok_or_else(missing)
    }

    fn fill(&self, name: &str, buffer: &mut ReadBuffer) -> rustix::io::Result<usize> {
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

    fn text<'a>(&'a self, name: &'a str, bytes: &'a [u8]) -> Result<SysfsFile<'a>> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(SysfsFile { dir: self, name, text }),
            Err(_) => {
                let found = String::from_utf8_lossy(bytes);
                Err(SysfsFile { dir: self, name, text: &found }.unexpected("text in UTF-8"))
            }
        }
    }

    fn unreadable(&self, name: &str, errno: Errno) -> Error {
        Error::Read { path: self.path.join(name), source: errno.into() }
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// A buffer for one file.
pub(super) struct ReadBuffer {
    bytes: Vec<u8>,
}

impl Default for ReadBuffer {
    fn default() -> Self {
        Self { bytes: vec![0; 8192] } // sysfs files are one page at most; meminfo is smaller
    }
}

/// The text of one file, with its name for errors.
pub(super) struct SysfsFile<'a> {
    dir: &'a Dir,
    name: &'a str,
    pub(super) text: &'a str,
}

impl SysfsFile<'_> {
    pub(super) fn list<T: Id>(&self) -> Result<Mask<T>> {
        self.text.parse().map_err(|_| self.unexpected("a list such as 0-3,8"))
    }

    pub(super) fn number<N: FromStr>(&self) -> Result<N> {
        self.text.trim().parse().map_err(|_| self.unexpected("a number"))
    }

    /// Returns an error about the first line.
    pub(super) fn unexpected(&self, wanted: &'static str) -> Error {
        self.unexpected_at(1, wanted)
    }

    pub(super) fn unexpected_at(&self, line: usize, wanted: &'static str) -> Error {
        let found = self.text.lines().nth(line - 1).unwrap_or("").trim();
        Error::Parse {
            path: self.dir.path.join(self.name),
            line,
            expected: format!("{wanted}, found '{}'", found.chars().take(80).collect::<String>()),
        }
    }
}

impl fmt::Debug for SysfsFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}: {:?}", self.dir.path.escaped(), self.name, self.text)
    }
}
