//! Finds segments of shared memory that processes map: System V and POSIX ones, memfd, files of
//! tmpfs, shared anonymous memory. Each is a file of tmpfs, and may have pages that no process
//! maps.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use nodeward_machine::Process;
use nodeward_model::{Mapping, MappingKind};
use rustix::fs::{OFlags, fstatfs};

/// `statfs.f_type` of tmpfs (include/uapi/linux/magic.h).
const TMPFS: u64 = 0x0102_1994;
/// Prefixes of the names of segments that have no path or the usual one.
const NAMES: [&str; 4] = ["/dev/zero", "/SYSV", "/memfd:", "/dev/shm/"];

/// Open segments; they outlive the processes that map them.
#[derive(Debug, Default)]
pub struct SharedSegments {
    files: Vec<File>,
    /// Mappings of segments that this process may not open (needs CAP_SYS_ADMIN or
    /// CAP_CHECKPOINT_RESTORE).
    pub denied: u64,
}

impl SharedSegments {
    /// Opens the segments that processes map now, each once. Processes that exit meanwhile have
    /// none.
    pub fn mapped_by<'a>(processes: impl Iterator<Item = &'a dyn Process>) -> Self {
        let mut segments = Self::default();
        let mut seen = BTreeSet::new();
        for process in processes {
            let mappings = process.mappings().unwrap_or_default();
            let shared = mappings.iter().filter(|mapping| mapping.kind == MappingKind::Shared);
            for mapping in shared {
                let range = mapping.range;
                let path = format!("/proc/{}/map_files/{range}", process.pid());
                segments.add(mapping, &path, &mut seen);
            }
        }
        segments
    }

    fn add(&mut self, mapping: &Mapping, path: &str, seen: &mut BTreeSet<(u64, u64)>) {
        // A file outside tmpfs may be a device, so the path is opened without opening the device
        // (O_PATH).
        let referred = OFlags::PATH.bits().cast_signed();
        match File::options().read(true).custom_flags(referred).open(path) {
            Ok(file) if is_segment(&file, seen) => self.files.push(file),
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                let known = NAMES.iter().any(|name| mapping.path.starts_with(name));
                self.denied += u64::from(known);
            }
            Ok(_) | Err(_) => {}
        }
    }

    /// Closes the segments that have more than `bytes_max` bytes, and returns their number.
    pub fn leave_out_above(&mut self, bytes_max: u64) -> usize {
        let before = self.files.len();
        self.files.retain(|file| file.metadata().is_ok_and(|found| found.len() <= bytes_max));
        before - self.files.len()
    }

    /// Returns paths of the segments, valid as long as the value lives.
    pub fn paths(&self) -> Vec<PathBuf> {
        let path = |file: &File| format!("/proc/self/fd/{}", file.as_raw_fd()).into();
        self.files.iter().map(path).collect()
    }
}

/// Returns true if a file is on tmpfs and was not seen before.
fn is_segment(file: &File, seen: &mut BTreeSet<(u64, u64)>) -> bool {
    let of_memory = fstatfs(file).is_ok_and(|system| system.f_type.cast_unsigned() == TMPFS);
    of_memory && file.metadata().is_ok_and(|found| seen.insert((found.dev(), found.ino())))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use nodeward_machine::Machine;
    use nodeward_model::{PageLocation, Pid};

    use super::*;
    use crate::Linux;
    use crate::own_process::{AreaBacking, MappedArea, fork_idle};

    /// Goal: a process and its child show the same segment in their mappings, from the same offset
    /// on. (The child has touched no page of it, and its table has none: a page is looked for in
    /// the tables of several processes.)
    #[test]
    fn a_process_and_its_child_show_one_segment() {
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        file.set_len(1 << 20).unwrap();
        let area = MappedArea::map(1 << 20, AreaBacking::SharedFile(file.as_fd())).unwrap();
        area.words()[0].store(7, std::sync::atomic::Ordering::Relaxed);
        let shown = |pid: Pid| {
            let process = Linux::open().open_process(pid).unwrap();
            let mappings = process.mappings().unwrap();
            let mapping = mappings.into_iter().find(|it| it.range.start == area.address()).unwrap();
            (mapping.segment.unwrap(), process.locate(&[area.address()]).unwrap()[0])
        };
        let (part, place) = shown(Pid::of_this_process());
        assert_eq!((part.id.inode, part.offset), (file.metadata().unwrap().ino(), 0));
        assert!(part.writable && matches!(place, PageLocation::On(_)), "{place:?}");
        let child = fork_idle(60).unwrap();
        assert_eq!(shown(child), (part, PageLocation::Absent));
    }

    /// Goal: a segment that is mapped twice is found once, whatever its name; a file on a disk and
    /// private memory are not segments; what is larger than a limit is left out.
    #[test]
    fn each_segment_is_found_once() {
        let us = Linux::open().open_process(Pid::new(std::process::id()).unwrap()).unwrap();
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        file.set_len(1 << 20).unwrap();
        let _areas =
            [(); 2].map(|()| MappedArea::map(1 << 20, AreaBacking::SharedFile(file.as_fd())));
        let wanted = file.metadata().unwrap();
        let mut segments = SharedSegments::mapped_by([&*us].into_iter());
        if segments.denied > 0 {
            println!("skipped: /proc/PID/map_files is not for this user");
            return;
        }
        let count = |segments: &SharedSegments| {
            let found = segments.paths().into_iter().map(|path| path.metadata().unwrap());
            let is_same =
                |it: &std::fs::Metadata| (it.dev(), it.ino()) == (wanted.dev(), wanted.ino());
            found.filter(is_same).count()
        };
        assert_eq!(count(&segments), 1, "{segments:?}");
        segments.leave_out_above(1 << 20);
        assert_eq!(count(&segments), 1, "it is not larger");
        assert!(segments.leave_out_above((1 << 20) - 1) > 0);
        assert_eq!(count(&segments), 0);
    }
}
