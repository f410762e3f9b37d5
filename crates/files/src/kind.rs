//! What stands where a file should.

use std::fmt;
use std::fs::{FileType, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

/// Something that is no regular file stands where a file should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAFile {
    what: &'static str,
}

impl fmt::Display for NotAFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it is {}, and must be a regular file", self.what)
    }
}

impl std::error::Error for NotAFile {}

/// Whether an error says that something else stands where a file should.
pub fn is_not_a_file(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<NotAFile>)
}

pub(crate) fn check(found: &Metadata) -> io::Result<()> {
    match found.is_file() {
        true => Ok(()),
        false => {
            let what = name(found.file_type());
            Err(io::Error::new(ErrorKind::InvalidInput, NotAFile { what }))
        }
    }
}

/// Whether it is /dev/null, by its number: an empty file for whoever reads.
pub(crate) fn is_null(found: &Metadata) -> bool {
    let number = rustix::fs::makedev(1, 3);
    found.file_type().is_char_device() && found.rdev() == number
}

fn name(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_fifo() => "a pipe (FIFO)",
        kind if kind.is_dir() => "a directory",
        kind if kind.is_symlink() => "a symbolic link",
        kind if kind.is_socket() => "a socket",
        _ => "a device",
    }
}
