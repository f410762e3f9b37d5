//! The control groups of this process and the memory that they still permit. Beyond it the kernel
//! kills a process instead of refusing an allocation.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use bstr::ByteSlice as _;
use nodeward_machine::{Error, Result};
use nodeward_model::Escape as _;

use crate::kernel_file;
use crate::procfs::{lines, parse_trimmed};

/// The mounted control group hierarchies of both versions that limit memory.
#[derive(Clone, Debug)]
pub struct MemoryGroups {
    root: PathBuf,
    mounts: Vec<CgroupMount>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct CgroupMount {
    version: CgroupVersion,
    /// The group that is visible at `point`: in a container often the container's own.
    top: PathBuf,
    mount_point: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CgroupVersion {
    V1,
    V2,
}

impl CgroupVersion {
    /// Returns the names of the files with the limit and the usage, and the field of memory.stat
    /// that counts file pages which the kernel drops before it kills a process. All of them include
    /// child groups.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::V1 => ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
            Self::V2 => ("memory.max", "memory.current", "inactive_file"),
        }
    }
}

impl MemoryGroups {
    /// Finds the mounted hierarchies from `proc/self/mountinfo` below a root.
    ///
    /// # Errors
    /// If that file cannot be read.
    pub fn find(root: &Path) -> Result<Self> {
        let bytes = read(root.join("proc/self/mountinfo"))?.unwrap_or_default();
        let mounts = lines(&bytes).filter_map(mount).collect();
        Ok(Self { root: root.to_owned(), mounts })
    }

    /// Returns the bytes that this process may allocate before the first of its groups is full;
    /// `None` if no group has a limit. Cost: one file, and three for each group up to the root that
    /// has a limit.
    ///
    /// # Errors
    /// If a file cannot be read or parsed.
    pub fn headroom_bytes(&self) -> Result<Option<u64>> {
        let own = self.own()?;
        let mut least = None;
        for mount in &self.mounts {
            let Some(folder) = self.folder(mount, &own) else { continue };
            let point = self.mount_path(mount);
            for folder in folder.ancestors().take_while(|folder| folder.starts_with(&point)) {
                let headroom = headroom(folder, mount.version)?;
                least = least.into_iter().chain(headroom).min();
            }
        }
        Ok(least)
    }

    /// Returns the directory of this process's version 2 group; `None` where version 2 is not
    /// mounted.
    ///
    /// # Errors
    /// If the kernel's list of this process's groups cannot be read.
    pub fn folder_v2(&self) -> Result<Option<PathBuf>> {
        let own = self.own()?;
        let mut mounts = self.mounts.iter().filter(|mount| mount.version == CgroupVersion::V2);
        Ok(mounts.find_map(|mount| self.folder(mount, &own)))
    }

    /// Returns the directory of a version 2 group, given by its path in /proc/PID/cgroup; `None`
    /// where version 2 is not mounted.
    pub fn folder_v2_of(&self, path: &Path) -> Option<PathBuf> {
        let mount = self.mounts.iter().find(|mount| mount.version == CgroupVersion::V2)?;
        Some(self.folder_at(mount, path))
    }

    /// Reads the kernel's list of this process's groups; empty without control groups.
    fn own(&self) -> Result<Vec<u8>> {
        Ok(read(self.root.join("proc/self/cgroup"))?.unwrap_or_default())
    }

    /// Returns the directory of this process's group in a hierarchy. A group outside the mounted
    /// part has none here, and its limits are not seen.
    fn folder(&self, mount: &CgroupMount, own: &[u8]) -> Option<PathBuf> {
        Some(self.folder_at(mount, &group_path(own, mount.version)?))
    }

    fn folder_at(&self, mount: &CgroupMount, group: &Path) -> PathBuf {
        let below = group.strip_prefix(&mount.top).unwrap_or(Path::new(""));
        self.mount_path(mount).join(below)
    }

    fn mount_path(&self, mount: &CgroupMount) -> PathBuf {
        self.root.join(mount.mount_point.strip_prefix("/").unwrap_or(&mount.mount_point))
    }
}

/// Parses `31 23 0:28 TOP POINT options [more] - TYPE SOURCE OPTIONS`.
fn mount(line: &[u8]) -> Option<CgroupMount> {
    let (place, kind) = line.split_once_str(" - ")?;
    let mut place = place.split_str(" ").skip(3);
    let (top, point) = (unescape(place.next()?), unescape(place.next()?));
    let mut kind = kind.split_str(" ");
    let version = match (kind.next()?, kind.nth(1)?) {
        (b"cgroup2", _) => CgroupVersion::V2,
        (b"cgroup", options) if options.split_str(",").any(|word| word == b"memory") => {
            CgroupVersion::V1
        }
        _ => return None,
    };
    Some(CgroupMount { version, top, mount_point: point })
}

/// Decodes a path: in this file the kernel writes blanks and backslashes as a backslash and three
/// octal digits.
fn unescape(escaped: &[u8]) -> PathBuf {
    let (mut path, mut rest) = (Vec::with_capacity(escaped.len()), escaped);
    while let Some((&byte, behind)) = rest.split_first() {
        let octal =
            behind.get(..3).filter(|_| byte == b'\\').and_then(|digits| digits.to_str().ok());
        let octal = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        path.push(octal.unwrap_or(byte));
        rest = if octal.is_some() { &behind[3..] } else { behind };
    }
    path_of(&path)
}

/// Returns the path of the version 2 group in the text of /proc/PID/cgroup.
pub(crate) fn group_path_v2(bytes: &[u8]) -> Option<PathBuf> {
    group_path(bytes, CgroupVersion::V2)
}

/// Parses `4:memory,cpu:/path` or `0::/path`; returns the path of the group in a hierarchy.
fn group_path(bytes: &[u8], version: CgroupVersion) -> Option<PathBuf> {
    let is_it = |controllers: &[u8]| match version {
        CgroupVersion::V1 => controllers.split_str(",").any(|name| name == b"memory"),
        CgroupVersion::V2 => controllers.is_empty(),
    };
    lines(bytes).find_map(|line| {
        let (controllers, path) = line.split_once_str(":")?.1.split_once_str(":")?;
        is_it(controllers).then(|| path_of(path))
    })
}

fn path_of(bytes: &[u8]) -> PathBuf {
    OsStr::from_bytes(bytes).into()
}

/// Returns the headroom of one group; `None` if it has no limit.
fn headroom(folder: &Path, version: CgroupVersion) -> Result<Option<u64>> {
    let (limit, used, reclaimable) = version.names();
    let path = folder.join(limit);
    // The root group has no such file, nor has a group whose parent does not enable the controller.
    let Some(limit) = read(path.clone())? else { return Ok(None) };
    if limit.trim_ascii() == b"max" {
        return Ok(None);
    }
    let limit = number(&path, &limit)?;
    let path = folder.join(used);
    let Some(used) = read(path.clone())? else { return Ok(None) };
    let used = number(&path, &used)?;
    let path = folder.join("memory.stat");
    let stat = read(path.clone())?.unwrap_or_default();
    let mut lines = stat.lines();
    let value =
        lines.find_map(|line| line.strip_prefix(reclaimable.as_bytes())?.strip_prefix(b" "));
    let cold = value.map_or(Ok(0), |value| number(&path, value))?;
    Ok(Some((limit + cold).saturating_sub(used)))
}

fn number(path: &Path, text: &[u8]) -> Result<u64> {
    parse_trimmed(text).ok_or_else(|| Error::Parse {
        path: path.to_owned(),
        line: 1,
        expected: format!("a number of bytes, not '{}'", text.trim_ascii().escaped()),
    })
}

/// Returns the contents of a file; `None` if it does not exist.
fn read(path: PathBuf) -> Result<Option<Vec<u8>>> {
    match kernel_file::read(&path) {
        Ok(bytes) => Ok(Some(bytes)),
        // ENODEV: the group was removed during the read.
        Err(error) if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(19) => {
            Ok(None)
        }
        Err(source) => Err(Error::Read { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const MIB: u64 = 1 << 20;

    /// Returns a root directory with these files.
    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn headroom_of(files: &[(&str, &str)]) -> Result<Option<u64>> {
        let root = root(files);
        MemoryGroups::find(root.path())?.headroom_bytes()
    }

    const MOUNTED: (&str, &str) = (
        "proc/self/mountinfo",
        "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
    );

    /// Goal: the tightest limit up to the root counts, and reclaimable file pages count as
    /// headroom.
    #[test]
    fn the_tightest_group_counts() {
        let found = headroom_of(&[
            MOUNTED,
            ("proc/self/cgroup", "0::/pod/app\n"),
            ("sys/fs/cgroup/pod/memory.max", "104857600\n"), // 100 MiB
            ("sys/fs/cgroup/pod/memory.current", "99614720\n"), // 95 MiB
            ("sys/fs/cgroup/pod/memory.stat", "anon 1\nfile 2\ninactive_file 3145728\n"), // 3 MiB
            ("sys/fs/cgroup/pod/app/memory.max", "max\n"),
            ("sys/fs/cgroup/pod/app/memory.current", "99614720\n"),
        ]);
        assert_eq!(found.unwrap(), Some((100 - 95 + 3) * MIB));
        let full = headroom_of(&[
            MOUNTED,
            ("proc/self/cgroup", "0::/app\n"),
            ("sys/fs/cgroup/app/memory.max", "1048576\n"),
            ("sys/fs/cgroup/app/memory.current", "1050000\n"),
        ]);
        assert_eq!(full.unwrap(), Some(0));
    }

    /// Goal: a container sees its own group as the root, in both versions.
    #[test]
    fn containers_and_version_1() {
        let found = headroom_of(&[
            (
                "proc/self/mountinfo",
                "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                 35 31 0:32 /docker/c1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                 41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            ),
            ("proc/self/cgroup", "8:cpu:/other\n4:memory:/docker/c1/job\n0::/\n"),
            ("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "8388608\n"),
            ("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1048576\n"),
            ("sys/fs/cgroup/memory/job/memory.stat", "inactive_file 7\ntotal_inactive_file 11\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "2097152\n"),
        ]);
        assert_eq!(found.unwrap(), Some(7 * MIB + 11));
    }

    /// Goal: the version 2 group is found below its own mount, beside mounts of version 1.
    #[test]
    fn the_folder_of_version_2() {
        let folder_of = |files: &[(&str, &str)]| {
            let root = root(files);
            let folder = MemoryGroups::find(root.path()).unwrap().folder_v2().unwrap();
            folder.map(|folder| folder.strip_prefix(root.path()).unwrap().to_owned())
        };
        let mixed = (
            "proc/self/mountinfo",
            "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             41 31 0:38 /pod /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
        );
        let own = ("proc/self/cgroup", "4:memory:/job\n0::/pod/app\n");
        assert_eq!(folder_of(&[mixed, own]), Some("sys/fs/cgroup/unified/app".into()));
        assert_eq!(folder_of(&[MOUNTED]), None);
        assert_eq!(folder_of(&[own]), None);
    }

    /// Goal: no control groups, or none with a limit, give no limit; invalid numbers are errors.
    #[test]
    fn nothing_and_nonsense() {
        assert_eq!(headroom_of(&[]).unwrap(), None);
        assert_eq!(headroom_of(&[MOUNTED, ("proc/self/cgroup", "0::/\n")]).unwrap(), None);
        let odd = headroom_of(&[
            MOUNTED,
            ("proc/self/cgroup", "0::/app\n"),
            ("sys/fs/cgroup/app/memory.max", "plenty\n"),
        ]);
        let told = odd.unwrap_err().to_string();
        assert!(told.contains("app/memory.max:1") && told.contains("'plenty'"), "{told}");
    }

    /// Goal: the files of this machine can be read.
    #[test]
    fn this_machine_can_be_read() {
        let groups = MemoryGroups::find(Path::new("/")).unwrap();
        eprintln!("{groups:?} {:?}", groups.headroom_bytes().unwrap());
    }

    /// Goal: groups and mount points are found if their names have blanks or are not UTF-8.
    #[test]
    fn names_that_are_no_text() {
        let root = root(&[]);
        let proc = root.path().join("proc/self");
        fs::create_dir_all(&proc).unwrap();
        let mounts = b"30 23 0:26 / /sys/c\\040g\\134\xfe rw - cgroup2 cgroup2 rw\n\xff - - -\n";
        fs::write(proc.join("mountinfo"), mounts).unwrap();
        fs::write(proc.join("cgroup"), b"1:cpu:/\xff\n0::/a b\xff\n").unwrap();
        let folder = MemoryGroups::find(root.path()).unwrap().folder_v2().unwrap().unwrap();
        let below = folder.strip_prefix(root.path()).unwrap();
        assert_eq!(below.as_os_str().as_bytes(), b"sys/c g\\\xfe/a b\xff");
    }
}
