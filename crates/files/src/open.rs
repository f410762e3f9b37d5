//! Opening what must be a file.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

use crate::make::For;
use crate::{kind, make};

/// Whatever took the place of a file since it was looked at, one does not wait for it.
const NO_WAIT: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY);
/// Who may write to a file beside its owner.
const OTHERS_WRITE: u32 = 0o022;

/// Opens a file that is there, by its own name or by that of a link to it.
///
/// # Errors
/// With [`kind::NotAFile`] if something else is there; those of open(2).
pub fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    kind::check(&fs::metadata(path)?)?;
    checked(options.clone().custom_flags(bits(NO_WAIT)).open(path)?)
}

/// The content of a file, of at most so many bytes; nothing of /dev/null, which one names to have
/// no file.
///
/// # Errors
/// As [`open`], and those of read(2).
pub fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if !kind::is_null(&fs::metadata(path)?) {
        open(File::options().read(true), path)?.take(bytes_max).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Opens a file to be read and written; makes it where there is none. What is kept for the owner is
/// no link to elsewhere; if others may write it, as earlier versions made it, they no longer may.
///
/// # Errors
/// As [`open`].
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
