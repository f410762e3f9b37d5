//! A sysctl with a number that is changed for a time. A lock on its file is what holds it: two
//! programs have the same file, whatever their directories are.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use nodeward_machine::{Error, Result};

use crate::confinement::{Confinement, PrivilegedAction};
use crate::kernel_file;
use crate::procfs::{boot_id, parse_trimmed};

/// More than a number has.
const BYTES_MAX: usize = 32;

/// A sysctl that can be held.
#[derive(Clone, Copy, Debug)]
pub struct Sysctl {
    /// Its name: `vm.percpu_pagelist_high_fraction`.
    pub name: &'static str,
    /// What setting it does, as messages name it.
    pub action: &'static str,
    /// Why a kernel has none.
    pub missing: &'static str,
}

impl Sysctl {
    /// Returns its file below `root`.
    pub(crate) fn path(&self, root: &Path) -> PathBuf {
        root.join("proc/sys").join(self.name.replace('.', "/"))
    }

    /// Returns the value; `None` if the kernel has no such sysctl.
    ///
    /// # Errors
    /// If the file cannot be read, or has no number.
    pub(crate) fn read(&self, root: &Path) -> Result<Option<u32>> {
        let path = self.path(root);
        match kernel_file::read(&path) {
            Ok(bytes) => number(path, &bytes).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Read { path, source }),
        }
    }

    /// Holds it; `None` if another process does.
    ///
    /// # Errors
    /// `Denied` if the file may not be written, `Unsupported` if there is none.
    pub fn hold(self, root: &Path) -> Result<Option<HeldSysctl>> {
        let path = self.path(root);
        let file = match nodeward_files::open(File::options().read(true).write(true), &path) {
            Ok(file) => file,
            Err(source) => return Err(self.refused(root, path, source)),
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(source)) => {
                return Err(Error::Syscall { call: "flock", source });
            }
        }
        let boot = boot_id::read(root);
        let boot_id = boot.map_err(|source| Error::Read { path: boot_id::path(root), source })?;
        Ok(Some(HeldSysctl { sysctl: self, file, path, root: root.to_owned(), boot_id }))
    }

    fn refused(&self, root: &Path, path: PathBuf, source: io::Error) -> Error {
        match source.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                Confinement::detect(root).denied(self.action, PrivilegedAction::Sysctl)
            }
            ErrorKind::NotFound => {
                Error::Unsupported { action: self.action, reason: self.missing.to_owned() }
            }
            _ => Error::Read { path, source },
        }
    }
}

/// A sysctl, held.
#[derive(Debug)]
pub struct HeldSysctl {
    sysctl: Sysctl,
    file: File,
    path: PathBuf,
    root: PathBuf,
    boot_id: String,
}

impl HeldSysctl {
    /// Returns the boot of the machine, which no other boot of any machine has.
    pub fn boot_id(&self) -> &str {
        &self.boot_id
    }

    /// Returns the value.
    ///
    /// # Errors
    /// If it cannot be read, or is no number.
    pub fn value(&self) -> Result<u32> {
        let mut bytes = [0; BYTES_MAX];
        let length = self.file.read_at(&mut bytes, 0);
        let length = length.map_err(|source| Error::Read { path: self.path.clone(), source })?;
        number(self.path.clone(), &bytes[..length])
    }

    /// Sets the value.
    ///
    /// # Errors
    /// `Denied` if the caller may not, with the remedy.
    pub fn set(&self, value: u32) -> Result<()> {
        let written = self.file.write_all_at(format!("{value}\n").as_bytes(), 0);
        written.map_err(|source| self.sysctl.refused(&self.root, self.path.clone(), source))
    }
}

/// Parses the first line: where a file stands in for the sysctl, the end of a longer number may be
/// behind it.
fn number(path: PathBuf, bytes: &[u8]) -> Result<u32> {
    let expected = "a number".to_owned();
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    parse_trimmed(line).ok_or(Error::Parse { path, line: 1, expected })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use tempfile::TempDir;

    use super::*;

    const SYSCTL: Sysctl = Sysctl {
        name: "kernel.numa_balancing",
        action: "switching the kernel's NUMA balancing",
        missing: "this kernel has none (CONFIG_NUMA_BALANCING)",
    };
    const FILE: &str = "proc/sys/kernel/numa_balancing";

    /// Returns a root with the sysctl in a mode.
    fn root(text: &str) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [(FILE, text), ("proc/sys/kernel/random/boot_id", "5e-1a\n")] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    /// Goal: the value is read and set as the kernel writes it, each of the four of the kernel's
    /// NUMA balancing.
    #[test]
    fn the_value_is_set() {
        let root = root("1\n");
        let held = SYSCTL.hold(root.path()).unwrap().unwrap();
        assert_eq!((held.boot_id(), held.value().unwrap()), ("5e-1a", 1));
        for wanted in [0, 2, 3, 1] {
            held.set(wanted).unwrap();
            let read = SYSCTL.read(root.path()).unwrap();
            assert_eq!((held.value().unwrap(), read), (wanted, Some(wanted)));
        }
        assert_eq!(fs::read_to_string(root.path().join(FILE)).unwrap(), "1\n");
    }

    /// Goal: one process holds it at a time; who lets go of it changes nothing.
    #[test]
    fn one_holds_it() {
        let root = root("2\n");
        let first = SYSCTL.hold(root.path()).unwrap().unwrap();
        first.set(0).unwrap();
        assert!(SYSCTL.hold(root.path()).unwrap().is_none());
        drop(first);
        assert_eq!(SYSCTL.hold(root.path()).unwrap().unwrap().value().unwrap(), 0);
    }

    /// Goal: a kernel without it, a file that is no number and one that may not be written are
    /// errors, the last with its remedy.
    #[test]
    fn what_cannot_be_set() {
        let empty = tempfile::tempdir().unwrap();
        assert!(matches!(SYSCTL.hold(empty.path()), Err(Error::Unsupported { .. })));
        assert_eq!(SYSCTL.read(empty.path()).unwrap(), None);
        let odd = root("on\n");
        let held = SYSCTL.hold(odd.path()).unwrap().unwrap();
        assert!(matches!(held.value(), Err(Error::Parse { line: 1, .. })));
        for kind in [ErrorKind::ReadOnlyFilesystem, ErrorKind::PermissionDenied] {
            let error = SYSCTL.refused(odd.path(), PathBuf::from("x"), kind.into());
            assert!(error.is_permission(), "{error}");
            assert!(error.to_string().contains("ProtectKernelTunables=no"), "{error}");
        }
        fs::write(odd.path().join(".dockerenv"), "").unwrap();
        let read_only = ErrorKind::ReadOnlyFilesystem.into();
        let error = SYSCTL.refused(odd.path(), PathBuf::from("x"), read_only);
        assert!(error.to_string().contains("on the host"), "{error}");
    }

    /// Goal: a user who may only read the file is denied.
    #[test]
    fn readers_are_denied() {
        if rustix::process::geteuid().is_root() {
            return eprintln!("skipped: root may write any file");
        }
        let root = root("1\n");
        let path = root.path().join(FILE);
        fs::set_permissions(path, fs::Permissions::from_mode(0o444)).unwrap();
        assert!(SYSCTL.hold(root.path()).unwrap_err().is_permission());
    }
}
