//! Writes a result into a file that the user named: a picture, a page, a table.

use std::path::Path;

use anyhow::{Context, Result};
use nodeward_files::{Visibility, write};
use nodeward_model::Escape as _;

/// Writes a text into a file, which everyone may read.
///
/// # Errors
/// If it cannot be written; the error names the file.
pub fn write_result(path: &Path, text: &str) -> Result<()> {
    write(path, text, Visibility::Everyone)
        .with_context(|| format!("cannot write {}", path.escaped()))
}
