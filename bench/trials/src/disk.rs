//! File systems for cases about files, and files on them whose pages are on node 0.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering::Relaxed;

use nodeward_linux::own::{Area, Backing, Usage};
use nodeward_linux::{Linux, policy};
use nodeward_machine::Machine;
use nodeward_model::{CpuId, NodeId};

use crate::Skipped;
use crate::guest::{load_drivers, run, write};
use crate::numa_maps::{Nodes, nodes_within};

/// Bytes in a base page.
pub const PAGE: u64 = 4096;

/// A file system that is mounted. It ends with the value, and the case fails if anything of it is
/// still in use then: mapped, for one.
#[derive(Debug)]
pub struct Disk {
    folder: String,
}

impl Disk {
    /// A new ext4 on a disk in memory.
    pub fn ext4() -> Result<Self, Skipped> {
        let device = device("/dev/ram0")?;
        run("mke2fs", &["-b", "4096", device]);
        Ok(Self::mount("ext4", device, "rw"))
    }

    /// A new xfs on a disk in memory; the program that makes one is the host's.
    pub fn xfs() -> Result<Self, Skipped> {
        let device = device("/dev/ram1")?;
        if !Path::new("/bin/mkfs.xfs").exists() {
            return Err(Skipped("mkfs.xfs is not here; apt install xfsprogs".to_owned()));
        }
        run("mkfs.xfs", &["-q", "-f", device]);
        Ok(Self::mount("xfs", device, "rw"))
    }

    /// A new ext4 on memory that the kernel was told to take for persistent, with files that are
    /// mapped from there.
    pub fn dax() -> Result<Self, Skipped> {
        let device = device("/dev/pmem0")?;
        run("mke2fs", &["-b", "4096", device]);
        Ok(Self::mount("ext4", device, "dax"))
    }

    /// An overlay whose files lie on another file system.
    pub fn overlay(on: &Self) -> Self {
        let folders = ["lower", "upper", "work"].map(|name| on.path(name));
        folders.iter().for_each(|folder| fs::create_dir(folder).expect("a folder can be made"));
        let [lower, upper, work] = folders;
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        Self::mount("overlay", "none", &options)
    }

    /// A file system of no device: tmpfs, ramfs, hugetlbfs.
    pub fn of_memory(kind: &str, options: &str) -> Self {
        Self::mount(kind, "none", options)
    }

    fn mount(kind: &str, device: &str, options: &str) -> Self {
        let folder = format!("/mnt/{kind}");
        fs::create_dir_all(&folder).expect("a mount point can be made");
        run("mount", &["-t", kind, "-o", options, device, &folder]);
        // Whoever runs the case owns what is made here.
        run("chmod", &["1777", &folder]);
        Self { folder }
    }

    /// The path of a file.
    pub fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    /// A new file of so many MiB whose pages are on node 0, and the digest of what is in it. They
    /// are dirty, and stay so until somebody writes them out.
    pub fn write(&self, name: &str, mib: u64) -> (String, u64) {
        self.fill(name, mib, |_| ())
    }

    /// As [`Disk::write`], and all on its disk, whose memory is on node 0 too.
    pub fn write_clean(&self, name: &str, mib: u64) -> (String, u64) {
        self.fill(name, mib, |file| file.sync_all().expect("the file gets to its disk"))
    }

    fn fill(&self, name: &str, mib: u64, then: impl FnOnce(&File) + Send) -> (String, u64) {
        // Else a thread of the kernel writes what is old, and takes memory for the disk anywhere.
        write("/proc/sys/vm/dirty_writeback_centisecs", "0");
        write("/proc/sys/vm/dirty_background_ratio", "70");
        write("/proc/sys/vm/dirty_ratio", "80");
        // Else khugepaged may make huge pages of what a case has mapped, and unmaps it meanwhile.
        write("/sys/kernel/mm/transparent_hugepage/enabled", "never");
        let path = self.path(name);
        let mut file = File::create(&path).expect("a file can be made");
        // A CPU and a memory policy are a thread's.
        let fill = move || {
            Linux::open().stay_on(CpuId(0));
            policy::prefer_memory(NodeId(0)).expect("a memory policy");
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
            // It may be in use still, and is in the way of other cases.
            true => drop(Command::new("umount").args(["-l", &self.folder]).status()),
            false => run("umount", &[&self.folder]),
        }
    }
}

fn device(path: &'static str) -> Result<&'static str, Skipped> {
    load_drivers();
    // A device shows up some time after its driver was loaded.
    for _ in 0..6000 {
        if Path::new(path).exists() {
            return Ok(path);
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Err(Skipped(format!("this kernel has no {path}")))
}

/// A MiB of words that are nowhere the same, from the one of this number on.
fn numbers(first: u64) -> Vec<u8> {
    (first..first + (1 << 17)).flat_map(|number| mixed(number).to_ne_bytes()).collect()
}

/// Any change of a word changes what comes out, and so does any change of what came before.
fn mixed(word: u64) -> u64 {
    (word ^ word >> 29).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// What stands for the content of a file; reading it takes no memory worth speaking of.
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

/// A file of base pages that is mapped by us, with all its pages.
pub fn mapped(path: &str) -> Area {
    let area = unread(path);
    area.words().iter().step_by(PAGE as usize / 8).for_each(|word| {
        word.load(Relaxed);
    });
    area
}

/// A file of base pages that is mapped by us, with none of its pages yet.
pub fn unread(path: &str) -> Area {
    let file = File::options().read(true).write(true).open(path).expect("the file can be opened");
    let bytes = file.metadata().expect("the file is there").len().next_multiple_of(PAGE);
    let area = Area::map(bytes as usize, Backing::SharedFile(file.as_fd())).expect("mmap");
    // Huge pages come as they are, and are not made meanwhile; hugetlb pages cannot be advised.
    area.advise(Usage::BasePages).ok();
    area
}

/// Where the pages of a file are, by /proc/self/numa_maps of a mapping of our own.
pub fn places(path: &str) -> Nodes {
    let area = mapped(path);
    let range = area.address()..area.address() + area.bytes() as u64;
    nodes_within(std::process::id(), &range)
}
