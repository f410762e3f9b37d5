//! Writes a result into a file that the user named: a picture, a page, a table.

use std::path::Path;

use anyhow::{Context, Result};
use nodeward_files::{Visibility, check_place, write};
use nodeward_model::Escape as _;

/// Checks that a file can be written, before the work that gives its content.
///
/// # Errors
/// If it cannot; the error names the file.
pub fn check_result(path: &Path) -> Result<()> {
    check_place(path, Visibility::Everyone)
        .with_context(|| format!("cannot write {}", path.escaped()))
}

/// Writes a text into a file, which everyone may read.
///
/// # Errors
/// If it cannot be written; the error names the file.
pub fn write_result(path: &Path, text: &str) -> Result<()> {
    write(path, text, Visibility::Everyone)
        .with_context(|| format!("cannot write {}", path.escaped()))
}
