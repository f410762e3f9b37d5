//! Reads what patterns of groups ask of a process: user, control group, names of threads; and the
//! path of its program.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use bstr::ByteSlice as _;
use nodeward_model::{Name, ProcessTraits};

use crate::cgroup;
use crate::kernel_file;
use crate::procfs::status;

/// Reads them from a process's folder in /proc. What cannot be read is unknown, and a thread that
/// ends meanwhile is left out.
pub fn read(folder: &Path) -> ProcessTraits {
    let file = |name: &str| kernel_file::read(folder.join(name)).ok();
    let threads = fs::read_dir(folder.join("task")).into_iter().flatten().flatten();
    let mut threads: Vec<(u32, Name)> =
        threads.filter_map(|thread| thread_name(&thread.path())).collect();
    threads.sort_unstable();
    ProcessTraits {
        user: file("status").and_then(|bytes| status::parse(&bytes).user),
        cgroup: file("cgroup").and_then(|bytes| cgroup::group_path_v2(&bytes)),
        executable: fs::read_link(folder.join("exe")).ok().map(|path| without_deleted(&path)),
        threads,
    }
}

/// Removes what the kernel appends to the path of a file that was deleted or replaced.
fn without_deleted(path: &Path) -> PathBuf {
    let bytes = path.as_os_str().as_bytes();
    OsStr::from_bytes(bytes.strip_suffix(b" (deleted)").unwrap_or(bytes)).into()
}

fn thread_name(folder: &Path) -> Option<(u32, Name)> {
    let tid = folder.file_name()?.to_str()?.parse().ok()?;
    let bytes = kernel_file::read(folder.join("comm")).ok()?;
    Some((tid, Name::from(bytes.strip_suffix(b"\n").unwrap_or(&bytes).as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: names are bytes, also with a newline within; a thread without a name and a process
    /// without files are unknown, not errors.
    #[test]
    fn names_of_threads_are_bytes() {
        let made = tempfile::tempdir().unwrap();
        let write = |path: &str, bytes: &[u8]| {
            let path = made.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        write("status", b"Name:\tdb\nUid:\t1000\t1001\t1000\t1000\n");
        write("cgroup", b"1:cpu:/old\n0::/app.slice/db.service\n");
        write("task/12/comm", b"wal\xff\n");
        write("task/7/comm", b"a\nb\n");
        write("task/9/stat", b"");
        std::os::unix::fs::symlink("/usr/bin/db (deleted)", made.path().join("exe")).unwrap();
        let traits = read(made.path());
        assert_eq!(traits.user, Some(1001), "the effective one, as the filters of processes have");
        assert_eq!(traits.cgroup.as_deref(), Some(Path::new("/app.slice/db.service")));
        assert_eq!(traits.executable.as_deref(), Some(Path::new("/usr/bin/db")));
        let name = |bytes: &[u8]| Name::from(bytes);
        assert_eq!(traits.threads, [(7, name(b"a\nb")), (12, name(b"wal\xff"))]);
        assert_eq!(read(&made.path().join("nobody")), ProcessTraits::default());
    }
}
