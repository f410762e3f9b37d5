//! A process whose number cannot come to mean another one, and its credentials.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nodeward_machine::{Error, Result};
use nodeward_model::Pid;

use crate::process::{has_exited, open_pidfd, refuse_kernel_thread};
use crate::procfs::credentials::{self, StatusCredentials};

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
    /// The pid namespace that its pids are of, likewise.
    pub pid_namespace: Option<NamespaceId>,
    /// False if the kernel gave its files in /proc to root, as it does for programs that gained
    /// privileges or asked for it (prctl(2), PR_SET_DUMPABLE). Of a process whose effective ids
    /// are those of root it is always true: nothing tells.
    pub dumpable: bool,
}

impl HeldPid {
    /// Holds a process.
    ///
    /// # Errors
    /// `Gone`, `KernelThread`, or `Unsupported` if it is a thread beside the first.
    pub fn open(pid: Pid) -> Result<Self> {
        let held = Self::new(pid, open_pidfd(pid)?);
        refuse_kernel_thread(pid, &held.folder())?;
        held.check_alive().map(|()| held)
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

    /// Reads its credentials of this moment. Cost: four files, some 20 us.
    ///
    /// # Errors
    /// `Gone`.
    pub fn credentials(&self) -> Result<Credentials> {
        let read = read_credentials(&self.folder());
        // Files that were read by its path are its own if it is still there.
        self.check_alive()?;
        read
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
    let bytes = fs::read(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
    let status = credentials::parse(&bytes, &path)?;
    // Not the directory: that always belongs to the effective user.
    let owner = fs::metadata(&path).map_err(|source| Error::Read { path, source })?;
    let effective = (status.users[1], status.groups[1]);
    Ok(Credentials {
        user_namespace: namespace(folder, "user"),
        pid_namespace: namespace(folder, "pid"),
        dumpable: (owner.uid(), owner.gid()) == effective,
        status,
    })
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
        assert_eq!(its.pid_namespace, ours.pid_namespace);
        assert_eq!(its.status.pids.last(), Some(&child.id()));
        assert!(its.dumpable);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(held.credentials().is_err_and(|error| error.is_gone()));
    }

    /// Goal: a kernel thread has no memory, so it is not held. (In a pid namespace pid 2 is
    /// another process, or none.)
    #[test]
    fn kernel_threads_are_refused() {
        let thread = fs::read("/proc/2/comm").unwrap_or_default();
        if thread != b"kthreadd\n" {
            eprintln!("skipped: this pid namespace has no kernel threads");
            return;
        }
        let held = HeldPid::open(Pid::new(2).unwrap());
        assert!(matches!(held, Err(Error::KernelThread(_))), "{held:?}");
    }
}
