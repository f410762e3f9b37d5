//! What the guest needs: static programs, the drivers of swap and of disks, and what makes an xfs.

use std::path::{Path, PathBuf};

use nodeward_lab::{GuestFile, Kernel, Lab};
use tempfile::TempDir;

const NAMES: [&str; 4] = ["nodeward", "nodeward-load", "nodeward-torture", "nodeward-trials"];

/// Drivers of swap on compressed memory, of disks in memory, of memory that stands for a persistent
/// one, of xfs and of overlays. (ext4 is built in.)
const DRIVERS: [&str; 8] =
    ["lzo_rle", "zram", "brd", "nd_btt", "nd_pmem", "nd_e820", "xfs", "overlay"];

/// Where Debian has the program that makes an xfs; without it the case says that it was skipped.
const MKFS_XFS: &str = "/usr/sbin/mkfs.xfs";

/// The programs and drivers of one run.
pub struct Programs {
    programs: PathBuf,
    drivers: TempDir,
}

/// The programs, from the directory where `cargo xtask guest` puts them; `None` and a line
/// `skipped: why` if nobody told where that is.
///
/// # Panics
/// Where `NODEWARD_LAB_REQUIRED=1` says that a test that cannot run has failed.
pub fn find(lab: &Lab, kernel: &Kernel) -> Option<Programs> {
    let Some(programs) = std::env::var_os("NODEWARD_GUEST_DIR").map(PathBuf::from) else {
        let why = "NODEWARD_GUEST_DIR is not set; `cargo xtask ci lab` sets it";
        let required = std::env::var_os("NODEWARD_LAB_REQUIRED").is_some_and(|v| v == "1");
        assert!(!required, "the lab is required, but {why}");
        println!("skipped: {why}");
        return None;
    };
    let drivers = tempfile::tempdir().expect("a directory for drivers");
    lab.modules(kernel, &DRIVERS, drivers.path()).expect("the kernel's modules can be read");
    Some(Programs { programs, drivers })
}

impl Programs {
    /// Where they go in the guest.
    pub fn files(&self) -> Vec<GuestFile> {
        let programs = NAMES.iter().map(|name| GuestFile::new(self.programs.join(name)));
        let guest = Some("/lib/trial-drivers".to_owned());
        let drivers = GuestFile { host: self.drivers.path().to_owned(), guest };
        let mkfs = Path::new(MKFS_XFS).exists().then(|| GuestFile::new(MKFS_XFS));
        programs.chain([drivers]).chain(mkfs).collect()
    }
}
