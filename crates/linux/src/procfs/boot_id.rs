//! Reads the number that the kernel draws at each boot.

use std::io;
use std::path::{Path, PathBuf};

use crate::kernel_file;

/// Returns the path of the file under `root`.
pub fn path(root: &Path) -> PathBuf {
    root.join("proc/sys/kernel/random/boot_id")
}

/// Reads the number, as text.
///
/// # Errors
/// If the file cannot be read.
pub fn read(root: &Path) -> io::Result<String> {
    kernel_file::read_to_string(path(root)).map(|text| text.trim().to_owned())
}
