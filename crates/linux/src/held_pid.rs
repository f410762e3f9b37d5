//! A process whose number cannot come to mean another one, and its credentials.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nodeward_machine::{Error, Result};
use nodeward_model::Pid;

use crate::pidfd::{has_exited, open_pidfd};
use crate::procfs::credentials::{self, StatusCredentials};

/// Bytes of a status file that are read: it has 2 kB, of which our lines are in the first half.
/// Only groups of a process make it longer; who has a thousand of them is refused.
const STATUS_BYTES: usize = 8 << 10;

/// A process that is held by a pidfd.
#[derive(Debug)]
pub struct HeldPid {
    pid: Pid,
    pidfd: OwnedFd,
}

/// A namespace, by the device and inode of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamespaceId(u64, u64);

impl NamespaceId {
    /// Returns the namespace whose file has this device and inode.
    pub fn new(device: u64, inode: u64) -> Self {
        Self(device, inode)
    }
}

/// What decides who may touch a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Its ids and permitted capabilities.
    pub status: StatusCredentials,
    /// The user namespace in which its capabilities count; `None` if we may not read that.
    pub user_namespace: Option<NamespaceId>,
    /// False if the kernel gave its files in /proc to root, as it does for programs that gained
    /// privileges or asked for it (prctl(2), PR_SET_DUMPABLE). Of a process whose effective ids
    /// are those of root it is always true: nothing tells.
    pub dumpable: bool,
}

impl HeldPid {
    /// Holds a process, also one that is a kernel thread.
    ///
    /// # Errors
    /// `Gone`, or `Unsupported` if it is a thread beside the first.
    pub fn open(pid: Pid) -> Result<Self> {
        open_pidfd(pid).map(|pidfd| Self::new(pid, pidfd))
    }

    pub(crate) fn new(pid: Pid, pidfd: OwnedFd) -> Self {
        Self { pid, pidfd }
    }

    /// Returns its number.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Fails with `Gone` if it has exited.
    pub fn check_alive(&self) -> Result<()> {
        if has_exited(&self.pidfd) { Err(Error::Gone(self.pid)) } else { Ok(()) }
    }

    /// Reads its credentials of this moment. Cost: two files, some 15 us.
    ///
    /// # Errors
    /// `Gone`.
    pub fn credentials(&self) -> Result<Credentials> {
        let read = read_credentials(&self.folder());
        // Files that were read by its path are its own if it is still there.
        self.check_alive()?;
        read
    }

    /// Returns the pid namespace that its pids are of; `None` if we may not read that.
    pub fn pid_namespace(&self) -> Option<NamespaceId> {
        namespace(&self.folder(), "pid").filter(|_| self.check_alive().is_ok())
    }

    pub(crate) fn folder(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}", self.pid))
    }
}

/// Reads the credentials of this process.
///
/// # Errors
/// If /proc is not mounted.
pub fn own_credentials() -> Result<Credentials> {
    read_credentials(Path::new("/proc/self"))
}

fn read_credentials(folder: &Path) -> Result<Credentials> {
    let path = folder.join("status");
    let (bytes, owner) =
        read_status(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
    let status = credentials::parse(&bytes, &path)?;
    let effective = (status.users[1], status.groups[1]);
    let user_namespace = namespace(folder, "user");
    Ok(Credentials { user_namespace, dumpable: owner == effective, status })
}

/// Reads a status file, and its owner. (The directory above always belongs to the effective user.)
fn read_status(path: &Path) -> io::Result<(Vec<u8>, (u32, u32))> {
    let mut file = File::open(path)?;
    let owner = file.metadata()?;
    // Large enough for one read; without a size to go by, more would be made.
    let mut bytes = vec![0; STATUS_BYTES];
    let read = file.read(&mut bytes)?;
    bytes.truncate(read);
    Ok((bytes, (owner.uid(), owner.gid())))
}

fn namespace(folder: &Path, kind: &str) -> Option<NamespaceId> {
    let file = fs::metadata(folder.join("ns").join(kind)).ok()?;
    Some(NamespaceId::new(file.dev(), file.ino()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Goal: a child has our ids and namespaces; once it has ended, nothing is read of it.
    #[test]
    fn credentials_belong_to_a_living_process() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let held = HeldPid::open(Pid::new(child.id()).unwrap()).unwrap();
        let (ours, its) = (own_credentials().unwrap(), held.credentials().unwrap());
        assert_eq!(
            (its.status.users, its.user_namespace),
            (ours.status.users, ours.user_namespace)
        );
        let us = HeldPid::open(Pid::of_this_process()).unwrap();
        assert_eq!(held.pid_namespace(), us.pid_namespace());
        assert_eq!(its.status.pids.last(), Some(&child.id()));
        assert!(its.dumpable);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(held.credentials().is_err_and(|error| error.is_gone()));
    }
}
