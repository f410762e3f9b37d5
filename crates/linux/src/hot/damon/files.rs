//! The files that configure DAMON and return its results, by their names below `kdamonds`.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use nodeward_machine::{Error, Result};
use nodeward_model::Escape as _;

use super::Unavailability;
use super::names::{ACTION, NR_KDAMONDS};
use crate::confinement::{Confinement, PrivilegedAction};
use crate::kernel_file;

/// Their directory, below the root.
const KDAMONDS: &str = "sys/kernel/mm/damon/admin/kdamonds";
/// Attempts of a write and the time between them: the kernel refuses one of two concurrent writes.
const TRIES_MAX: u32 = 20;
const PAUSE: Duration = Duration::from_millis(10);

/// The kernel's files, or a fake of them.
pub trait DamonFiles {
    /// Returns the text of a file, trimmed.
    fn read(&self, name: &str) -> io::Result<String>;

    /// Writes an existing file.
    fn write(&self, name: &str, text: &str) -> io::Result<()>;

    /// Returns the names in a directory.
    fn list(&self, name: &str) -> io::Result<Vec<String>>;

    /// Returns the whole path, for errors.
    fn path(&self, name: &str) -> PathBuf;

    /// Returns the error of a file that could not be read.
    fn read_error(&self, name: &str, source: io::Error) -> Error {
        Error::Read { path: self.path(name), source }
    }

    /// Returns the error of a file that refused a value.
    fn write_error(&self, name: &str, source: io::Error) -> Error {
        let why = format!("{} refuses what must be written: {source}", self.path(name).escaped());
        Unavailability::missing(why, "see whether another program uses DAMON").error(ACTION)
    }
}

/// Reads a file that holds one number.
pub fn number(files: &dyn DamonFiles, name: &str) -> Result<u64> {
    let text = files.read(name).map_err(|source| files.read_error(name, source))?;
    text.parse().map_err(|_| Error::Parse {
        path: files.path(name),
        line: 1,
        expected: format!("a number, found '{text}'"),
    })
}

/// The files of the kernel.
#[derive(Debug)]
pub struct DamonSysfs(PathBuf);

impl DamonSysfs {
    /// Returns the files below a root.
    pub fn below(root: &Path) -> Self {
        Self(root.join(KDAMONDS))
    }

    /// Opens the file that every configuration begins with, and locks it against other nodeward
    /// processes.
    pub fn lock(&self, root: &Path) -> std::result::Result<File, Unavailability> {
        let path = self.path(NR_KDAMONDS);
        let file = File::options().read(true).write(true).open(&path).map_err(|error| {
            let shown = path.escaped();
            match error.kind() {
                ErrorKind::NotFound => Unavailability::missing(
                    format!("this kernel has no {shown}"),
                    "boot a kernel with CONFIG_DAMON_SYSFS and CONFIG_DAMON_VADDR (Linux 6.2)",
                ),
                ErrorKind::PermissionDenied => Unavailability::denied(
                    format!("{shown} may not be written"),
                    Confinement::detect(root).remedy(PrivilegedAction::RootFile),
                ),
                ErrorKind::ReadOnlyFilesystem => Unavailability::denied(
                    format!("{shown} is read-only here"),
                    "run on the host, or in a container that may write /sys",
                ),
                _ => Unavailability::missing(
                    format!("{shown}: {error}"),
                    "check that /sys is mounted",
                ),
            }
        })?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => {
                Err(Unavailability::missing("another nodeward uses it", "wait until that is done"))
            }
            Err(TryLockError::Error(error)) => {
                let why = format!("{} cannot be locked: {error}", path.escaped());
                Err(Unavailability::missing(why, "check that /sys is mounted as sysfs"))
            }
        }
    }
}

impl DamonFiles for DamonSysfs {
    fn read(&self, name: &str) -> io::Result<String> {
        Ok(kernel_file::read_to_string(self.path(name))?.trim().to_owned())
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let once = || {
            let mut file = File::options().write(true).truncate(true).open(self.path(name))?;
            file.write_all(text.as_bytes())
        };
        for _ in 1..TRIES_MAX {
            match once() {
                Err(error) if error.kind() == ErrorKind::ResourceBusy => thread::sleep(PAUSE),
                result => return result,
            }
        }
        once()
    }

    fn list(&self, name: &str) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.path(name))?;
        entries.map(|entry| Ok(entry?.file_name().escaped().to_string())).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}
