//! Opens paths that must be regular files.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

use crate::make::Visibility;
use crate::{file_kind, make};

/// Flags against waiting: the file may have been replaced since it was checked.
const NONBLOCKING: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY);
/// The bits of writers other than the owner.
const GROUP_OTHER_WRITE: u32 = 0o022;

/// Opens an existing file, by its own name or by that of a link to it.
///
/// # Errors
/// [`file_kind::NotRegularFile`] if the path is no regular file; those of open(2).
pub fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    file_kind::require_regular_file(&fs::metadata(path)?)?;
    regular_file(options.clone().custom_flags(raw_flags(NONBLOCKING)).open(path)?)
}

/// Reads a file, at most `bytes_max` bytes; returns nothing for /dev/null, which users name to have
/// no file.
///
/// # Errors
/// Those of [`open`] and of read(2).
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if !file_kind::is_null(&fs::metadata(path)?) {
        open(File::options().read(true), path)?.take(bytes_max).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Opens a file for reading and writing; makes it if it does not exist. A file for the owner must
/// not be a symbolic link; if others may write it, as earlier versions of nodeward made it, that
/// right is removed.
///
/// # Errors
/// Those of [`open`].
pub fn open_or_create(path: &Path, visibility: Visibility) -> io::Result<File> {
    let (found, flags) = match visibility {
        Visibility::Owner => (fs::symlink_metadata(path), NONBLOCKING | OFlags::NOFOLLOW),
        Visibility::Everyone => (fs::metadata(path), NONBLOCKING),
    };
    match found {
        Ok(found) => file_kind::require_regular_file(&found)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(visibility.file_mode());
    let file = regular_file(options.custom_flags(raw_flags(flags)).open(path)?)?;
    if visibility == Visibility::Owner
        && file.metadata()?.permissions().mode() & GROUP_OTHER_WRITE != 0
    {
        make::set_mode(&file, Permissions::from_mode(visibility.file_mode()));
    }
    Ok(file)
}

fn regular_file(file: File) -> io::Result<File> {
    file_kind::require_regular_file(&file.metadata()?)?;
    Ok(file)
}

fn raw_flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}
