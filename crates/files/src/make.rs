//! Makes files and directories, each with its mode.

use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The readers of a new file. Only its owner may write it; a umask may remove more rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// The owner: files that nodeward keeps for itself.
    Owner,
    /// Everyone: files that nodeward was asked to write.
    Everyone,
}

impl Visibility {
    pub(crate) fn file_mode(self) -> u32 {
        match self {
            Self::Owner => 0o600,
            Self::Everyone => 0o644,
        }
    }

    fn directory_mode(self) -> u32 {
        match self {
            Self::Owner => 0o700,
            Self::Everyone => 0o755,
        }
    }
}

/// Makes a file without a lock, or truncates an existing one. The path may be a pipe whose other
/// end a program reads.
///
/// # Errors
/// Those of open(2).
pub fn create(path: &Path, visibility: Visibility) -> io::Result<File> {
    File::options().write(true).create(true).truncate(true).mode(visibility.file_mode()).open(path)
}

/// Makes a file that must not exist yet, to be read and appended to.
///
/// # Errors
/// Those of open(2).
pub fn create_new(path: &Path, visibility: Visibility) -> io::Result<File> {
    File::options().read(true).append(true).create_new(true).mode(visibility.file_mode()).open(path)
}

/// Writes a whole file, made as [`create`] does.
///
/// # Errors
/// Those of open(2) and write(2).
pub fn write(path: &Path, content: impl AsRef<[u8]>, visibility: Visibility) -> io::Result<()> {
    create(path, visibility)?.write_all(content.as_ref())
}

/// Makes a directory and its ancestors where they are missing.
///
/// # Errors
/// Those of mkdir(2).
pub fn make_directory(path: &Path, visibility: Visibility) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(visibility.directory_mode()).create(path)
}

/// A process that does not own the file cannot change its mode; the file is used as it is.
pub(crate) fn set_mode(file: &File, mode: Permissions) {
    file.set_permissions(mode).ok();
}
