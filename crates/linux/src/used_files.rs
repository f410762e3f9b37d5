//! Finds the files that processes map or have open.
//!
//! The kernel has no list of all files with cached pages. It tells which files a process uses, so
//! these can be found; others have to be named.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nodeward_machine::Process;
use nodeward_model::MappingKind;

/// Files in use.
#[derive(Debug, Default)]
pub struct UsedFiles {
    /// A path of each file, valid as long as the file keeps its name or the process its use.
    pub paths: Vec<PathBuf>,
    /// Processes whose open files may not be listed.
    pub denied: u64,
    seen: BTreeSet<(u64, u64)>,
}

impl UsedFiles {
    /// Finds the regular files with data that processes use now, each once. Processes that exit
    /// meanwhile have none.
    pub fn of<'a>(processes: impl Iterator<Item = &'a dyn Process>) -> Self {
        let mut files = Self::default();
        for process in processes {
            files.add_open(process);
            files.add_mapped(process);
        }
        files
    }

    fn add_open(&mut self, process: &dyn Process) {
        let folder = format!("/proc/{}/fd", process.pid());
        match fs::read_dir(folder) {
            Ok(entries) => entries.flatten().for_each(|entry| self.add(entry.path())),
            Err(error) => {
                self.denied += u64::from(error.kind() == std::io::ErrorKind::PermissionDenied);
            }
        }
    }

    /// Adds the files of mappings: by the kernel's link, or by name where the link is for others.
    fn add_mapped(&mut self, process: &dyn Process) {
        let mappings = process.mappings().unwrap_or_default();
        for mapping in mappings.iter().filter(|mapping| mapping.kind == MappingKind::File) {
            let link: PathBuf =
                format!("/proc/{}/map_files/{}", process.pid(), mapping.range).into();
            match fs::metadata(&link) {
                Ok(_) => self.add(link),
                Err(_) => self.add(mapping.path.as_os_str().into()),
            }
        }
    }

    /// Adds a file by a link of the kernel or by its path. Files of the kernel itself and devices
    /// have no blocks.
    fn add(&mut self, path: PathBuf) {
        let Ok(found) = fs::metadata(&path) else { return };
        let has_data = found.is_file() && found.len() > 0 && found.blocks() > 0;
        if has_data && self.seen.insert((found.dev(), found.ino())) {
            self.paths.push(named(path, &found));
        }
    }
}

/// Returns the name that a link of the kernel has for its file, if the file still has that name
/// here: the name is clearer, and outlives the process.
fn named(link: PathBuf, file: &fs::Metadata) -> PathBuf {
    let is_it = |path: &Path| {
        let found = fs::symlink_metadata(path).ok();
        found.is_some_and(|found| (found.dev(), found.ino()) == (file.dev(), file.ino()))
    };
    fs::read_link(&link).ok().filter(|path| is_it(path)).unwrap_or(link)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use nodeward_machine::Machine;
    use nodeward_model::Pid;

    use super::*;
    use crate::Linux;
    use crate::own_process::{AreaBacking, MappedArea};

    fn found() -> UsedFiles {
        let us = Linux::open().open_process(Pid::of_this_process()).unwrap();
        UsedFiles::of([&*us].into_iter())
    }

    fn count(file: &fs::File, files: &UsedFiles) -> usize {
        let wanted = file.metadata().unwrap();
        let is_it = |path: &&PathBuf| {
            let found = path.metadata().ok();
            found.is_some_and(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()))
        };
        files.paths.iter().filter(is_it).count()
    }

    /// Goal: a file that is open, also one without a name, is found once however often it is used;
    /// a file of the kernel is not.
    #[test]
    fn open_files_are_found_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("named");
        let mut named = fs::File::create(&path).unwrap();
        let mut unnamed = tempfile::tempfile_in(folder.path()).unwrap();
        for file in [&mut named, &mut unnamed] {
            file.write_all(&[7; 8192]).unwrap();
            file.sync_all().unwrap();
        }
        let _again = named.try_clone().unwrap();
        let status = fs::File::open("/proc/self/status").unwrap();
        let files = found();
        assert_eq!([&named, &unnamed, &status].map(|file| count(file, &files)), [1, 1, 0]);
        assert!(files.paths.contains(&path), "by its name: {files:?}");
        assert_eq!(files.denied, 0);
    }

    /// Goal: a file that is mapped and closed is found.
    #[test]
    fn mapped_files_are_found() {
        let mut file = tempfile::NamedTempFile::new_in(".").unwrap();
        file.write_all(&[7; 8192]).unwrap();
        file.as_file().sync_all().unwrap();
        let area = MappedArea::map(8192, AreaBacking::PrivateFile(file.as_file().as_fd())).unwrap();
        let path = file.into_temp_path();
        assert_eq!(count(&fs::File::open(&path).unwrap(), &found()), 1);
        drop(area);
    }
}
