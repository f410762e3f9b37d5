//! Translates process ids between pid namespaces.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nodeward_model::Pid;
use rustix::io::Errno;

use crate::held_pid::{self, Credentials, HeldPid, NamespaceId};
use crate::kernel_file;
use crate::procfs::{credentials, parse_trimmed};
use crate::sys;

/// The inode of the first pid namespace, in every kernel.
const FIRST_NAMESPACE: u64 = 0xefff_fffc;

/// Returns whether our pids are those of the first pid namespace, which the kernel itself uses.
///
/// # Errors
/// If /proc is not mounted.
pub fn is_first() -> io::Result<bool> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino() == FIRST_NAMESPACE)
}

/// Returns our number of the process that `owner`, in its own pid namespace, knows as `pid`; `None`
/// if there is none. `owner` must be alive afterwards, else the answer means nothing.
///
/// Kernels before 6.11 cannot be asked. There all processes are searched, some 10 us each, and only
/// those of the very namespace of `owner` are found, not those in namespaces below it.
///
/// # Errors
/// If the namespace may not be read.
pub fn to_ours(owner: &HeldPid, credentials: &Credentials, pid: Pid) -> io::Result<Option<Pid>> {
    if credentials.status.pids.len() == 1 {
        return Ok(Some(pid));
    }
    let namespace = File::open(owner.folder().join("ns/pid"))?;
    let missing = [Errno::NOTTY, Errno::INVAL, Errno::OPNOTSUPP].map(Errno::raw_os_error);
    match sys::pid_from_namespace(namespace.as_fd(), pid.number()) {
        Ok(ours) => Ok(Pid::new(ours).ok()),
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(None),
        Err(error) if error.raw_os_error().is_some_and(|code| missing.contains(&code)) => {
            search(Path::new("/proc"), owner, credentials, pid)
        }
        Err(error) => Err(error),
    }
}

/// Returns the pid of a process as a pid namespace knows it that `levels` namespaces enclose, with
/// ours; `None` if it is not in there.
pub fn in_namespace(process: &Credentials, levels: usize) -> Option<Pid> {
    let number = process.status.pids.get(levels.checked_sub(1)?)?;
    Pid::new(*number).ok()
}

fn search(
    proc: &Path,
    owner: &HeldPid,
    credentials: &Credentials,
    pid: Pid,
) -> io::Result<Option<Pid>> {
    let Some(namespace) = owner.pid_namespace() else { return Ok(None) };
    let levels = credentials.status.pids.len();
    for entry in fs::read_dir(proc)? {
        let entry = entry?;
        let ours = parse_trimmed::<Pid>(entry.file_name().as_encoded_bytes());
        if let Some(ours) = ours.filter(|_| is_known_as(&entry.path(), levels, namespace, pid)) {
            return Ok(Some(ours));
        }
    }
    Ok(None)
}

/// Returns whether a process, by its directory in /proc, has this pid in a namespace that the last
/// `levels` of its namespaces end with.
fn is_known_as(folder: &Path, levels: usize, namespace: NamespaceId, pid: Pid) -> bool {
    let status = kernel_file::read(folder.join("status")).unwrap_or_default();
    let Ok(status) = credentials::parse(&status, folder) else { return false };
    status.pids.len() == levels
        && status.pids.last() == Some(&pid.number())
        && held_pid::namespace(folder, "pid") == Some(namespace)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::own_credentials;
    use crate::test_wait::wait_for;

    /// A `sleep` that is the first process of a pid namespace, below an `unshare`.
    fn in_new_namespace() -> Option<(Child, HeldPid)> {
        let mut child = Command::new("unshare")
            .args(["--pid", "--fork", "--kill-child", "sleep", "60"])
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let first = wait_for("the namespace has a process, or cannot be made", || {
            let ended = child.try_wait().unwrap().is_some();
            let pid = fs::read_to_string(&children).ok().and_then(|text| text.trim().parse().ok());
            pid.map(Some).or(ended.then_some(None))
        })?;
        Some((child, HeldPid::open(first).unwrap()))
    }

    /// Goal: pid 1 of another namespace is not pid 1 of ours, whichever way it is asked.
    #[test]
    fn pids_are_translated() {
        let Some((mut child, first)) = in_new_namespace() else {
            eprintln!("skipped: no pid namespace can be made here");
            return;
        };
        let one = Pid::new(1).unwrap();
        let its = first.credentials().unwrap();
        let us = HeldPid::open(Pid::of_this_process()).unwrap();
        assert_ne!(first.pid_namespace(), us.pid_namespace());
        assert_eq!(to_ours(&first, &its, one).unwrap(), Some(first.pid()));
        assert_eq!(search(Path::new("/proc"), &first, &its, one).unwrap(), Some(first.pid()));
        let ours = Pid::of_this_process();
        assert_eq!(to_ours(&first, &its, ours).unwrap(), None, "it does not see us");
        let levels = its.status.pids.len();
        assert_eq!(in_namespace(&its, levels), Some(one));
        assert_eq!(in_namespace(&own_credentials().unwrap(), levels), None);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Goal: in our own namespace a pid stays what it is.
    #[test]
    fn our_own_pids_stay() {
        let us = HeldPid::open(Pid::of_this_process()).unwrap();
        let found = to_ours(&us, &us.credentials().unwrap(), Pid::new(7).unwrap());
        assert_eq!(found.unwrap(), Some(Pid::new(7).unwrap()));
    }
}
