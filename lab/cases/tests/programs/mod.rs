//! The guest's files: static programs, the drivers of swap and of disks, and the program that makes
//! an xfs.

use std::path::{Path, PathBuf};

use nodeward_lab::{GuestFile, GuestKernel, Lab};
use tempfile::TempDir;

const NAMES: [&str; 5] =
    ["nodeward", "nodeward-load", "nodeward-stream", "nodeward-torture", "nodeward-cases"];

/// Drivers of compressed swap, of disks in memory, of simulated persistent memory, of xfs and of
/// overlays. (ext4 is built in.)
const DRIVERS: [&str; 8] =
    ["lzo_rle", "zram", "brd", "nd_btt", "nd_pmem", "nd_e820", "xfs", "overlay"];

/// Path of mkfs.xfs in Debian; without it the case is skipped.
const MKFS_XFS: &str = "/usr/sbin/mkfs.xfs";

/// The programs and drivers of one run.
pub struct CasePrograms {
    programs: PathBuf,
    drivers: TempDir,
}

/// Finds the programs in the directory where `cargo xtask guest` puts them. If that is unknown,
/// prints `skipped: why` and returns `None`.
///
/// # Panics
/// With `NODEWARD_LAB_REQUIRED=1`, if the test cannot run.
pub fn find(lab: &Lab, kernel: &GuestKernel) -> Option<CasePrograms> {
    let Some(programs) = std::env::var_os("NODEWARD_GUEST_DIR").map(PathBuf::from) else {
        let why = "NODEWARD_GUEST_DIR is not set; `cargo xtask ci lab` sets it";
        let required = std::env::var_os("NODEWARD_LAB_REQUIRED").is_some_and(|v| v == "1");
        assert!(!required, "the lab is required, but {why}");
        println!("skipped: {why}");
        return None;
    };
    let drivers = tempfile::tempdir().expect("a directory for drivers");
    lab.write_modules(kernel, &DRIVERS, drivers.path()).expect("the kernel's modules can be read");
    Some(CasePrograms { programs, drivers })
}

impl CasePrograms {
    /// Returns the files with their places in the guest.
    pub fn files(&self) -> Vec<GuestFile> {
        let programs = NAMES.iter().map(|name| GuestFile::new(self.programs.join(name)));
        let guest = Some("/lib/trial-drivers".to_owned());
        let drivers = GuestFile { host: self.drivers.path().to_owned(), guest };
        let mkfs = Path::new(MKFS_XFS).exists().then(|| GuestFile::new(MKFS_XFS));
        programs.chain([drivers]).chain(mkfs).collect()
    }
}
