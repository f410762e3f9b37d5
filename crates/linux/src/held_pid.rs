//! A process whose number cannot come to mean another one, and its credentials.

use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nodeward_machine::{Error, Result};
use nodeward_model::Pid;

use crate::pidfd::{has_exited, open_pidfd};
use crate::procfs::credentials::{self, StatusCredentials};
use crate::procfs::parse_trimmed;
use crate::sys;

/// Bytes of a status file that are read: it has 2 kB, of which our lines are in the first half.
/// Only groups of a process make it longer; who has a thousand of them is refused.
const STATUS_BYTES: usize = 8 << 10;

/// A process that is held by a pidfd.
#[derive(Debug)]
pub struct HeldPid {
    pid: Pid,
    pidfd: OwnedFd,
    /// Its pid in each pid namespace, from the first time that they were read: a process has the
    /// same ones until it ends.
    pids: OnceLock<Vec<u32>>,
}

/// A namespace, by the inode of its file. The files of all namespaces are in one file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamespaceId(u64);

impl NamespaceId {
    /// Returns the namespace whose file has this inode.
    pub fn new(inode: u64) -> Self {
        Self(inode)
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
        Self { pid, pidfd, pids: OnceLock::new() }
    }

    /// Returns its number.
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// Fails with `Gone` if it has exited.
    pub fn check_alive(&self) -> Result<()> {
        if has_exited(&self.pidfd) { Err(Error::Gone(self.pid)) } else { Ok(()) }
    }

    /// Reads its credentials of this moment. None of them is kept but its pids: exec(2), setuid(2),
    /// setns(2) and unshare(2) change the others, and no event tells. Cost: some 20 us, and 7 from
    /// the second time on since Linux 6.13.
    ///
    /// # Errors
    /// `Gone`.
    pub fn credentials(&self) -> Result<Credentials> {
        let read = self.read_credentials();
        // Files that were read by its path are its own if it is still there.
        self.check_alive()?;
        read
    }

    /// Returns the pid namespace that its pids are of; `None` if we may not read that.
    pub fn pid_namespace(&self) -> Option<NamespaceId> {
        namespace(&self.folder(), "pid").filter(|_| self.check_alive().is_ok())
    }

    fn read_credentials(&self) -> Result<Credentials> {
        let folder = self.folder();
        let status = match self.status_by_calls() {
            Some(status) => status,
            None => {
                let status = read_status(&folder)?;
                self.pids.get_or_init(|| status.pids.clone());
                status
            }
        };
        complete(status, &folder)
    }

    /// Returns what the status file has, of which the kernel writes fifty lines for our four.
    /// `None` if the pids were not read yet, or the kernel does not tell ids by a pidfd.
    fn status_by_calls(&self) -> Option<StatusCredentials> {
        let pids = self.pids.get()?.clone();
        let (users, groups) = sys::pidfd_ids(self.pidfd.as_fd()).ok()?;
        let number = rustix::process::Pid::from_raw(self.pid.number().cast_signed())?;
        let permitted = rustix::thread::capabilities(Some(number)).ok()?.permitted.bits();
        Some(StatusCredentials { users, groups, permitted, pids })
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
    let folder = Path::new("/proc/self");
    complete(read_status(folder)?, folder)
}

fn read_status(folder: &Path) -> Result<StatusCredentials> {
    let path = folder.join("status");
    let failed = |source: io::Error| Error::Read { path: path.clone(), source };
    // Large enough for one read; without a size to go by, more would be made.
    let mut room = [MaybeUninit::uninit(); STATUS_BYTES];
    let file = File::open(&path).map_err(failed)?;
    let read = rustix::io::read(&file, &mut room).map_err(|errno| failed(errno.into()));
    credentials::parse(read?.0, &path)
}

/// Adds what the status file does not tell.
fn complete(status: StatusCredentials, folder: &Path) -> Result<Credentials> {
    let path = folder.join("status");
    // (The directory above always belongs to the effective user.)
    let owner = fs::metadata(&path).map_err(|source| Error::Read { path, source })?;
    let dumpable = (owner.uid(), owner.gid()) == (status.users[1], status.groups[1]);
    Ok(Credentials { user_namespace: namespace(folder, "user"), dumpable, status })
}

/// Returns a namespace of a process, by its directory in /proc. The text of the link, such as
/// `user:[4026531837]`, costs half of what the file behind it does.
pub(crate) fn namespace(folder: &Path, kind: &str) -> Option<NamespaceId> {
    let link = fs::read_link(folder.join("ns").join(kind)).ok()?;
    let number = link.as_os_str().as_bytes().strip_prefix(kind.as_bytes())?;
    parse_trimmed(number.strip_prefix(b":[")?.strip_suffix(b"]")?).map(NamespaceId::new)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::test_wait::wait_for;

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
        assert_eq!(held.credentials().unwrap(), its, "by calls as by the file");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(held.credentials().is_err_and(|error| error.is_gone()));
    }
    /// Goal: credentials are those of the moment, also from the second time on: a process that
    /// becomes another user, without capabilities, is seen as that.
    #[test]
    fn changed_credentials_are_seen() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root becomes another user");
            return;
        }
        let script = "read line; exec setpriv --reuid 65534 --regid 65534 --clear-groups sleep 60";
        let mut child =
            Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn().unwrap();
        let held = HeldPid::open(Pid::new(child.id()).unwrap()).unwrap();
        let before = held.credentials().unwrap();
        assert_eq!(held.credentials().unwrap(), before);
        child.stdin.take().unwrap().write_all(b"\n").unwrap();
        // (setpriv keeps its capabilities until it starts the other program.)
        let after = wait_for("it is another user, without capabilities", || {
            let now = held.credentials().unwrap();
            let ids = (now.status.users, now.status.groups);
            (ids == ([65534; 3], [65534; 3]) && now.status.permitted == 0).then_some(now)
        });
        assert_eq!(after.status.pids, before.status.pids);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
