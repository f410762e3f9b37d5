//! The static programs that the guest needs.

use std::path::PathBuf;

use nodeward_lab::GuestFile;

const NAMES: [&str; 3] = ["nodeward", "nodeward-load", "nodeward-trials"];

/// The programs, from the directory where `cargo xtask guest` puts them; `None` and a line
/// `skipped: why` if nobody told where that is.
///
/// # Panics
/// Where `NODEWARD_LAB_REQUIRED=1` says that a test that cannot run has failed.
pub fn find() -> Option<Vec<GuestFile>> {
    let Some(directory) = std::env::var_os("NODEWARD_GUEST_DIR").map(PathBuf::from) else {
        let why = "NODEWARD_GUEST_DIR is not set; `cargo xtask ci lab` sets it";
        let required = std::env::var_os("NODEWARD_LAB_REQUIRED").is_some_and(|v| v == "1");
        assert!(!required, "the lab is required, but {why}");
        println!("skipped: {why}");
        return None;
    };
    Some(NAMES.iter().map(|name| GuestFile::new(directory.join(name))).collect())
}
