//! Making files and directories, each with its mode.

use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Who may read what is made. Only its owner may write it; a umask may take more away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// Its owner: what nodeward keeps.
    Owner,
    /// Everyone: what it was asked to write.
    Everyone,
}

impl For {
    pub(crate) fn file(self) -> u32 {
        match self {
            Self::Owner => 0o600,
            Self::Everyone => 0o644,
        }
    }

    fn directory(self) -> u32 {
        match self {
            Self::Owner => 0o700,
            Self::Everyone => 0o755,
        }
    }
}

/// A new file, locked by nobody; of one that is there the content is lost. It may be a pipe, where
/// somebody reads what is asked for.
///
/// # Errors
/// Those of open(2).
pub fn create(path: &Path, whose: For) -> io::Result<File> {
    File::options().write(true).create(true).truncate(true).mode(whose.file()).open(path)
}

/// A file that was not there before, to be read and appended to.
///
/// # Errors
/// Those of open(2).
pub fn create_new(path: &Path, whose: For) -> io::Result<File> {
    File::options().read(true).append(true).create_new(true).mode(whose.file()).open(path)
}

/// Writes a file as a whole, as [`create`] makes it.
///
/// # Errors
/// Those of open(2) and write(2).
pub fn write(path: &Path, content: impl AsRef<[u8]>, whose: For) -> io::Result<()> {
    create(path, whose)?.write_all(content.as_ref())
}

/// Makes a directory, and those above it, where they are missing.
///
/// # Errors
/// Those of mkdir(2).
pub fn make_directory(path: &Path, whose: For) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(whose.directory()).create(path)
}

/// Whose file it is not cannot change its mode; it is used as it is.
pub(crate) fn set_mode(file: &File, mode: Permissions) {
    file.set_permissions(mode).ok();
}
