//! What the guest needs: static programs, and a swap device's driver.

use std::path::PathBuf;

use nodeward_lab::{GuestFile, Kernel, Lab};
use tempfile::TempDir;

const NAMES: [&str; 3] = ["nodeward", "nodeward-load", "nodeward-trials"];

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
    lab.modules(kernel, &["lzo_rle", "zram"], drivers.path())
        .expect("the kernel's modules can be read");
    Some(Programs { programs, drivers })
}

impl Programs {
    /// Where they go in the guest.
    pub fn files(&self) -> Vec<GuestFile> {
        let programs = NAMES.iter().map(|name| GuestFile::new(self.programs.join(name)));
        let guest = Some("/lib/trial-drivers".to_owned());
        let drivers = GuestFile { host: self.drivers.path().to_owned(), guest };
        programs.chain([drivers]).collect()
    }
}
