//! Checks that a path names a regular file.

use std::fmt;
use std::fs::{FileType, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

/// The error of an object that is not a regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRegularFile {
    kind: &'static str,
}

impl fmt::Display for NotRegularFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it is {}, and must be a regular file", self.kind)
    }
}

impl std::error::Error for NotRegularFile {}

/// Returns true if an error is [`NotRegularFile`].
pub fn is_not_regular_file(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<NotRegularFile>)
}

pub(crate) fn require_regular_file(found: &Metadata) -> io::Result<()> {
    match found.is_file() {
        true => Ok(()),
        false => {
            let what = kind_name(found.file_type());
            Err(io::Error::new(ErrorKind::InvalidInput, NotRegularFile { kind: what }))
        }
    }
}

/// Returns true if it is /dev/null, by its device number: an empty file for a reader.
pub(crate) fn is_null(found: &Metadata) -> bool {
    let number = rustix::fs::makedev(1, 3);
    found.file_type().is_char_device() && found.rdev() == number
}

fn kind_name(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_fifo() => "a pipe (FIFO)",
        kind if kind.is_dir() => "a directory",
        kind if kind.is_symlink() => "a symbolic link",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    }
}
