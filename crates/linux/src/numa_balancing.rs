//! The sysctl kernel.numa_balancing, which switches the kernel's NUMA balancing. A lock on its file
//! is what holds it: two balancers have the same file, whatever their directories are.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use nodeward_machine::{Error, NumaBalancingSwitch, Result};

use crate::confinement::{Confinement, PrivilegedAction};
use crate::procfs::{boot_id, parse_trimmed};

const SYSCTL: &str = "proc/sys/kernel/numa_balancing";
/// More than a number has.
const BYTES_MAX: usize = 32;

/// Returns the mode; `None` if the kernel has no such balancing (`CONFIG_NUMA_BALANCING`).
pub fn mode(root: &Path) -> Option<u32> {
    parse_trimmed(&std::fs::read(root.join(SYSCTL)).ok()?)
}

/// Holds the switch; `None` if another process does.
///
/// # Errors
/// `Denied` if the file may not be written, `Unsupported` if there is none.
pub fn hold(root: &Path) -> Result<Option<SysctlSwitch>> {
    let path = root.join(SYSCTL);
    let file = match nodeward_files::open(File::options().read(true).write(true), &path) {
        Ok(file) => file,
        Err(source) => return Err(refused(root, path, source)),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(source)) => return Err(Error::Syscall { call: "flock", source }),
    }
    let boot = boot_id::read(root);
    let boot_id = boot.map_err(|source| Error::Read { path: boot_id::path(root), source })?;
    Ok(Some(SysctlSwitch { file, path, root: root.to_owned(), boot_id }))
}

/// The switch, held.
#[derive(Debug)]
pub struct SysctlSwitch {
    file: File,
    path: PathBuf,
    root: PathBuf,
    boot_id: String,
}

impl NumaBalancingSwitch for SysctlSwitch {
    fn boot_id(&self) -> &str {
        &self.boot_id
    }

    fn mode(&self) -> Result<u32> {
        let mut bytes = [0; BYTES_MAX];
        let length = self.file.read_at(&mut bytes, 0);
        let length = length.map_err(|source| Error::Read { path: self.path.clone(), source })?;
        let expected = "a number".to_owned();
        parse_trimmed(&bytes[..length]).ok_or(Error::Parse {
            path: self.path.clone(),
            line: 1,
            expected,
        })
    }

    fn set_mode(&self, mode: u32) -> Result<()> {
        let written = self.file.write_all_at(format!("{mode}\n").as_bytes(), 0);
        written.map_err(|source| refused(&self.root, self.path.clone(), source))
    }
}

fn refused(root: &Path, path: PathBuf, source: io::Error) -> Error {
    match source.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Confinement::detect(root)
            .denied("switching the kernel's NUMA balancing", PrivilegedAction::Sysctl),
        ErrorKind::NotFound => Error::Unsupported {
            action: "switching the kernel's NUMA balancing",
            reason: "this kernel has none (CONFIG_NUMA_BALANCING)".to_owned(),
        },
        _ => Error::Read { path, source },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use tempfile::TempDir;

    use super::*;

    /// Returns a root with the sysctl in a mode.
    fn root(text: &str) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [(SYSCTL, text), ("proc/sys/kernel/random/boot_id", "5e-1a\n")] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    /// Goal: the mode is read and set as the kernel writes it, each of its four values.
    #[test]
    fn the_mode_is_set() {
        let root = root("1\n");
        let switch = hold(root.path()).unwrap().unwrap();
        assert_eq!((switch.boot_id(), switch.mode().unwrap()), ("5e-1a", 1));
        for wanted in [0, 2, 3, 1] {
            switch.set_mode(wanted).unwrap();
            assert_eq!((switch.mode().unwrap(), mode(root.path())), (wanted, Some(wanted)));
        }
        assert_eq!(fs::read_to_string(root.path().join(SYSCTL)).unwrap(), "1\n");
    }

    /// Goal: one process holds the switch at a time; who lets go of it changes nothing.
    #[test]
    fn one_holds_it() {
        let root = root("2\n");
        let first = hold(root.path()).unwrap().unwrap();
        first.set_mode(0).unwrap();
        assert!(hold(root.path()).unwrap().is_none());
        drop(first);
        assert_eq!(hold(root.path()).unwrap().unwrap().mode().unwrap(), 0);
    }

    /// Goal: a kernel without it, a file that is no number and one that may not be written are
    /// errors, the last with its remedy.
    #[test]
    fn what_cannot_be_switched() {
        let empty = tempfile::tempdir().unwrap();
        assert!(matches!(hold(empty.path()), Err(Error::Unsupported { .. })));
        assert_eq!(mode(empty.path()), None);
        let odd = root("on\n");
        let switch = hold(odd.path()).unwrap().unwrap();
        assert!(matches!(switch.mode(), Err(Error::Parse { line: 1, .. })));
        for (kind, is_denied) in
            [(ErrorKind::ReadOnlyFilesystem, true), (ErrorKind::PermissionDenied, true)]
        {
            let error = refused(odd.path(), PathBuf::from("x"), kind.into());
            assert_eq!(error.is_permission(), is_denied, "{error}");
            assert!(error.to_string().contains("ProtectKernelTunables=no"), "{error}");
        }
        fs::write(odd.path().join(".dockerenv"), "").unwrap();
        let error = refused(odd.path(), PathBuf::from("x"), ErrorKind::ReadOnlyFilesystem.into());
        assert!(error.to_string().contains("on the host"), "{error}");
    }

    /// Goal: a user who may only read the file is denied.
    #[test]
    fn readers_are_denied() {
        if rustix::process::geteuid().is_root() {
            return eprintln!("skipped: root may write any file");
        }
        let root = root("1\n");
        let path = root.path().join(SYSCTL);
        fs::set_permissions(path, fs::Permissions::from_mode(0o444)).unwrap();
        assert!(hold(root.path()).unwrap_err().is_permission());
    }
}
