//! Makes files and directories, each with its mode.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

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

/// Writes a whole file: a new one takes the place of an old one when it is complete, so that no
/// half of one is ever there. What is no regular file, such as a pipe, is written to.
///
/// # Errors
/// Those of open(2), write(2) and rename(2).
pub fn write(path: &Path, content: impl AsRef<[u8]>, visibility: Visibility) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return create(path, visibility)?.write_all(content.as_ref());
    }
    // A link goes on to lead to the file.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    put(&path, content.as_ref(), |new| create_new(new, visibility))
}

/// Writes a whole file in a directory where others may write, too: it takes the place of whatever
/// has that name, also of a link or a pipe, and is neither led elsewhere by the one nor waits for
/// the other. Its mode is as given, whatever the umask is.
///
/// # Errors
/// Those of open(2), write(2) and rename(2).
pub fn replace(path: &Path, content: impl AsRef<[u8]>, visibility: Visibility) -> io::Result<()> {
    put(path, content.as_ref(), |new| {
        let file = create_new(new, visibility)?;
        file.set_permissions(Permissions::from_mode(visibility.file_mode()))?;
        Ok(file)
    })
}

/// Makes a file beside another, and puts it in its place when it is complete.
fn put(
    path: &Path,
    content: &[u8],
    make: impl FnOnce(&Path) -> io::Result<File>,
) -> io::Result<()> {
    let new = beside(path);
    // One is left there by a process of the same number that was killed.
    let _ = fs::remove_file(&new);
    let written = make(&new)
        .and_then(|mut file| file.write_all(content))
        .and_then(|()| fs::rename(&new, path));
    written.inspect_err(|_| drop(fs::remove_file(&new)))
}

/// Checks that [`write()`] can make a file, before the work that gives it its content.
///
/// # Errors
/// Those of open(2).
pub fn check_place(path: &Path, visibility: Visibility) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(found) if found.is_dir() => return Err(ErrorKind::IsADirectory.into()),
        Ok(found) if !found.is_file() => return Ok(()),
        Ok(_) | Err(_) => {}
    }
    let new = beside(&fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()));
    let _ = fs::remove_file(&new);
    create_new(&new, visibility)?;
    fs::remove_file(&new)
}

/// The name of a file until it takes the place of another.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.new", std::process::id()));
    path.with_file_name(name)
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
