//! Opens paths that must be regular files.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

use crate::make::For;
use crate::{kind, make};

/// Flags against waiting: the file may have been replaced since it was checked.
const NO_WAIT: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY);
/// The bits of writers other than the owner.
const OTHERS_WRITE: u32 = 0o022;

/// Opens an existing file, by its own name or by that of a link to it.
///
/// # Errors
/// [`kind::NotAFile`] if the path is no regular file; those of open(2).
pub fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    kind::check(&fs::metadata(path)?)?;
    checked(options.clone().custom_flags(bits(NO_WAIT)).open(path)?)
}

/// Reads a file, at most `bytes_max` bytes; returns nothing for /dev/null, which users name to have
/// no file.
///
/// # Errors
/// Those of [`open`] and of read(2).
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if !kind::is_null(&fs::metadata(path)?) {
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
pub fn open_or_make(path: &Path, whose: For) -> io::Result<File> {
    let (found, flags) = match whose {
        For::Owner => (fs::symlink_metadata(path), NO_WAIT | OFlags::NOFOLLOW),
        For::Everyone => (fs::metadata(path), NO_WAIT),
    };
    match found {
        Ok(found) => kind::check(&found)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(whose.file());
    let file = checked(options.custom_flags(bits(flags)).open(path)?)?;
    if whose == For::Owner && file.metadata()?.permissions().mode() & OTHERS_WRITE != 0 {
        make::set_mode(&file, Permissions::from_mode(whose.file()));
    }
    Ok(file)
}

fn checked(file: File) -> io::Result<File> {
    kind::check(&file.metadata()?)?;
    Ok(file)
}

fn bits(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}
