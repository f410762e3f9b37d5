//! File systems for cases about files, and files on them whose pages are on node 0.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;

use nodeward_linux::own_process::{AreaAdvice, AreaBacking, MappedArea};
use nodeward_linux::{Linux, mempolicy};
use nodeward_machine::Machine;
use nodeward_model::{CpuId, NodeId};

use crate::case_outcome::CaseSkipped;
use crate::guest::{load_drivers, run, write};
use crate::numa_maps::{PagesByNode, pages_within};

/// Bytes in a base page.
pub const PAGE: u64 = 4096;

/// A mounted file system. It is unmounted with the value, and the case fails if it is still in use
/// then, for example mapped.
#[derive(Debug)]
pub struct Disk {
    folder: String,
}

impl Disk {
    /// Creates an ext4 on a disk in memory.
    pub fn ext4() -> Result<Self, CaseSkipped> {
        let device = device("/dev/ram0")?;
        run("mke2fs", &["-b", "4096", device]);
        Ok(Self::mount("ext4", device, "rw"))
    }

    /// Creates an xfs on a disk in memory, with the host's mkfs.
    pub fn xfs() -> Result<Self, CaseSkipped> {
        let device = device("/dev/ram1")?;
        if !Path::new("/bin/mkfs.xfs").exists() {
            return Err(CaseSkipped("mkfs.xfs is not here; apt install xfsprogs".to_owned()));
        }
        run("mkfs.xfs", &["-q", "-f", device]);
        Ok(Self::mount("xfs", device, "rw"))
    }

    /// Creates an ext4 on memory that the kernel treats as persistent, with files that are mapped
    /// from there.
    pub fn dax() -> Result<Self, CaseSkipped> {
        let device = device("/dev/pmem0")?;
        run("mke2fs", &["-b", "4096", device]);
        Ok(Self::mount("ext4", device, "dax"))
    }

    /// Creates an overlay whose files are on another file system.
    pub fn overlay(on: &Self) -> Self {
        let folders = ["lower", "upper", "work"].map(|name| on.path(name));
        folders.iter().for_each(|folder| fs::create_dir(folder).expect("a folder can be made"));
        let [lower, upper, work] = folders;
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        Self::mount("overlay", "none", &options)
    }

    /// Mounts a file system without a device: tmpfs, ramfs, hugetlbfs.
    pub fn without_device(kind: &str, options: &str) -> Self {
        Self::mount(kind, "none", options)
    }

    fn mount(kind: &str, device: &str, options: &str) -> Self {
        let folder = format!("/mnt/{kind}");
        fs::create_dir_all(&folder).expect("a mount point can be made");
        run("mount", &["-t", kind, "-o", options, device, &folder]);
        // The user of the case owns the files that it creates.
        run("chmod", &["1777", &folder]);
        Self { folder }
    }

    /// Returns the path of a file.
    pub fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    /// Writes a new file of `mib` MiB with its pages on node 0. Returns its path and the digest of
    /// its content. The pages are dirty, and stay so until they are written out.
    pub fn write(&self, name: &str, mib: u64) -> (String, u64) {
        self.fill(name, mib, |_| ())
    }

    /// As [`Disk::write`], with all pages written to the disk, whose memory is on node 0 too.
    pub fn write_clean(&self, name: &str, mib: u64) -> (String, u64) {
        self.fill(name, mib, |file| file.sync_all().expect("the file gets to its disk"))
    }

    fn fill(&self, name: &str, mib: u64, then: impl FnOnce(&File) + Send) -> (String, u64) {
        // Otherwise a kernel thread writes old pages, and allocates memory for the disk on any
        // node.
        write("/proc/sys/vm/dirty_writeback_centisecs", "0");
        write("/proc/sys/vm/dirty_background_ratio", "70");
        write("/proc/sys/vm/dirty_ratio", "80");
        // Otherwise khugepaged may make huge pages of mapped files, and unmaps them meanwhile.
        write("/sys/kernel/mm/transparent_hugepage/enabled", "never");
        let path = self.path(name);
        let mut file = File::create(&path).expect("a file can be made");
        // Affinity and memory policy belong to a thread.
        let fill = move || {
            Linux::open().pin_current_thread(CpuId(0));
            mempolicy::prefer_memory(NodeId(0)).expect("a memory policy");
            for piece in 0..mib {
                file.write_all(&numbers(piece << 17)).expect("the file can be written");
            }
            then(&file);
        };
        std::thread::scope(|scope| scope.spawn(fill).join().expect("the file is written"));
        let digest = digest(&path);
        (path, digest)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        match std::thread::panicking() {
            // It may still be in use, and would be in the way of other cases.
            true => drop(Command::new("umount").args(["-l", &self.folder]).status()),
            false => run("umount", &[&self.folder]),
        }
    }
}

fn device(path: &'static str) -> Result<&'static str, CaseSkipped> {
    load_drivers();
    // A device appears some time after its driver was loaded.
    for _ in 0..6000 {
        if Path::new(path).exists() {
            return Ok(path);
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Err(CaseSkipped(format!("this kernel has no {path}")))
}

/// Returns a MiB of distinct words, beginning with a number.
fn numbers(first: u64) -> Vec<u8> {
    (first..first + (1 << 17)).flat_map(|number| mixed(number).to_ne_bytes()).collect()
}

/// Mixes a word, so that a change of any earlier word changes the result.
fn mixed(word: u64) -> u64 {
    (word ^ word >> 29).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns a digest of a file's content; reading it takes little memory.
pub fn digest(path: &str) -> u64 {
    let file = File::open(path).expect("the file can be opened");
    let (mut digest, mut piece) = (0, Vec::with_capacity(1 << 20));
    while (&file).take(1 << 20).read_to_end(&mut piece).expect("the file can be read") > 0 {
        digest = piece.chunks(8).fold(digest, |digest: u64, word| {
            let mut eight = [0; 8];
            eight[..word.len()].copy_from_slice(word);
            mixed(digest.rotate_left(23) ^ u64::from_ne_bytes(eight))
        });
        piece.clear();
    }
    digest
}

/// Maps a file in base pages and touches all of them.
pub fn map_populated(path: &str) -> MappedArea {
    let area = map_unpopulated(path);
    area.words().iter().step_by(PAGE as usize / 8).for_each(|word| {
        word.load(Relaxed);
    });
    area
}

/// Maps a file in base pages without touching any.
pub fn map_unpopulated(path: &str) -> MappedArea {
    let file = File::options().read(true).write(true).open(path).expect("the file can be opened");
    let bytes = file.metadata().expect("the file is there").len().next_multiple_of(PAGE);
    let area =
        MappedArea::map(bytes as usize, AreaBacking::SharedFile(file.as_fd())).expect("mmap");
    // Existing huge pages stay, but no new ones are made meanwhile; hugetlb pages cannot be
    // advised.
    area.advise(AreaAdvice::BasePages).ok();
    area
}

/// Returns the places of a file's pages, by /proc/self/numa_maps of a mapping of our own.
pub fn pages_by_node(path: &str) -> PagesByNode {
    let area = map_populated(path);
    let range = area.address()..area.address() + area.bytes() as u64;
    pages_within(std::process::id(), &range)
}
