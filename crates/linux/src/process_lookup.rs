//! Finds processes by name, by control group, or by one of their threads.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nodeward_machine::{Error, Result};
use nodeward_model::{Name, Pid};

use crate::kernel_file;
use crate::procfs::{lines, parse_trimmed};

/// The bytes of a name that the kernel keeps.
const NAME_BYTES: usize = 15;

use crate::procfs::privileges::{Capability, Privileges};
use crate::procfs::stat;

/// Returns the processes whose name (as in /proc/PID/comm, at most 15 bytes) is `name`, in
/// ascending order. Processes that exit during the search are left out.
pub fn by_name(root: &Path, name: &Name) -> Result<Vec<Pid>> {
    let proc = root.join("proc");
    let wanted = to_comm(name);
    let entries = fs::read_dir(&proc).map_err(|source| Error::Read { path: proc, source })?;
    let mut found: Vec<Pid> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let pid: Pid = entry.file_name().to_str()?.parse().ok()?;
            let comm = kernel_file::read(entry.path().join("comm")).ok()?;
            (comm.strip_suffix(b"\n")? == wanted.as_bytes()).then_some(pid)
        })
        .collect();
    found.sort_unstable();
    Ok(found)
}

/// Returns the name of a process, which all may read; `None` if it is gone. Cost: one file.
pub fn name_of(root: &Path, pid: Pid) -> Option<Name> {
    let comm = kernel_file::read(root.join(format!("proc/{pid}/comm"))).ok()?;
    Some(comm.strip_suffix(b"\n").unwrap_or(&comm).into())
}

/// Truncates a name as the kernel does: to its first 15 bytes.
pub(crate) fn to_comm(name: &Name) -> Name {
    let bytes = name.as_bytes();
    bytes[..bytes.len().min(NAME_BYTES)].into()
}

/// Returns the process that a thread belongs to; `None` if there is no such thread.
pub fn by_thread(root: &Path, thread: Pid) -> Option<Pid> {
    let status = kernel_file::read(root.join(format!("proc/{thread}/status"))).ok()?;
    parse_trimmed(lines(&status).find_map(|line| line.strip_prefix(b"Tgid:"))?)
}

/// Returns whether this process might read a zombie (a process that has exited but was not waited
/// for) if it were alive: it has the same user, or this process may read all processes. `None` if
/// it is no zombie.
pub fn zombie_is_accessible(root: &Path, pid: Pid) -> Option<bool> {
    let folder = root.join(format!("proc/{pid}"));
    let stat = stat::parse(&kernel_file::read(folder.join("stat")).ok()?)?;
    let user = fs::metadata(&folder).ok()?.uid();
    let may_look = || {
        let held = Privileges::of_this_thread(root).unwrap_or_default();
        held.holds(Capability::SysPtrace) || user == rustix::process::geteuid().as_raw()
    };
    (stat.state == 'Z').then(may_look)
}

/// Returns the processes in a control group (version 2) and the groups below it, in ascending
/// order. The group is named by its directory, absolute or relative to the mount point of the
/// hierarchy.
pub fn by_cgroup(root: &Path, group: &Path) -> Result<Vec<Pid>> {
    let mut found = Vec::new();
    collect_pids(&cgroup_folder(root, group), &mut found)
        .map_err(|(path, source)| Error::Read { path, source })?;
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Returns the directory of a control group (version 2) that is named as for [`by_cgroup`].
pub fn cgroup_folder(root: &Path, group: &Path) -> PathBuf {
    let relative = group.strip_prefix("/sys/fs/cgroup").unwrap_or(group);
    root.join("sys/fs/cgroup").join(relative.strip_prefix("/").unwrap_or(relative))
}

fn collect_pids(
    group: &Path,
    found: &mut Vec<Pid>,
) -> std::result::Result<(), (PathBuf, io::Error)> {
    let path = group.join("cgroup.procs");
    let text = kernel_file::read_to_string(&path).map_err(|error| (path, error))?;
    found.extend(text.lines().filter_map(|line| line.parse::<Pid>().ok()));
    let folders = fs::read_dir(group).map_err(|error| (group.to_owned(), error))?;
    for folder in folders.filter_map(io::Result::ok).filter(|entry| entry.path().is_dir()) {
        match collect_pids(&folder.path(), found) {
            // A group that was removed meanwhile has no processes.
            Err((_, error)) if error.kind() == io::ErrorKind::NotFound => {}
            other => other?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: any thread gives its process, and an unused id gives none.
    #[test]
    fn a_thread_leads_to_its_process() {
        let us = Pid::new(std::process::id()).unwrap();
        let thread = std::thread::spawn(move || {
            let id = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
            assert_ne!(id, us.number(), "a thread beside the first");
            by_thread(Path::new("/"), Pid::new(id).unwrap())
        });
        assert_eq!(thread.join().unwrap(), Some(us));
        assert_eq!(by_thread(Path::new("/"), Pid::new(Pid::LIMIT).unwrap()), None);
    }

    fn numbers(pids: &[Pid]) -> Vec<u32> {
        pids.iter().map(|pid| pid.number()).collect()
    }

    #[test]
    fn names_are_compared_as_the_kernel_cuts_them() {
        let root = tempfile::tempdir().unwrap();
        for (pid, comm) in [
            ("12", &b"postgres\n"[..]),
            ("7", b"postgres\n"),
            ("9", b"a-very-long-nam\n"),
            ("13", b"p\xff\x1b\n\n"),
            ("14", b"\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\xbc\xc3\n"),
            ("15", b"\n"),
        ] {
            let folder = root.path().join("proc").join(pid);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("comm"), comm).unwrap();
        }
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        let found = |name: &[u8]| numbers(&by_name(root.path(), &name.into()).unwrap());
        assert_eq!(found(b"postgres"), [7, 12]);
        assert_eq!(found(b"a-very-long-name"), [9]);
        assert_eq!(found(b"p\xff\x1b\n"), [13], "only the kernel's own line feed is none of it");
        assert_eq!(
            found("\u{fc}".repeat(8).as_bytes()),
            [14],
            "15 bytes, in the middle of a letter"
        );
        assert_eq!(found(b"nobody"), []);
        let name = |pid| name_of(root.path(), Pid::new(pid).unwrap());
        assert_eq!(name(13), Some(b"p\xff\x1b\n"[..].into()));
        assert_eq!(name(6), None);
    }

    #[test]
    fn groups_are_searched_downwards() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("sys/fs/cgroup/db");
        fs::create_dir_all(group.join("replica")).unwrap();
        fs::write(group.join("cgroup.procs"), "5\n3\n").unwrap();
        fs::write(group.join("replica/cgroup.procs"), "4\n").unwrap();
        for name in ["db", "/db", "/sys/fs/cgroup/db"] {
            let found = by_cgroup(root.path(), Path::new(name)).unwrap();
            assert_eq!(numbers(&found), [3, 4, 5], "{name}");
        }
        let error = by_cgroup(root.path(), Path::new("nothing")).unwrap_err();
        assert!(error.to_string().contains("cgroup/nothing/cgroup.procs"), "{error}");
    }
}
