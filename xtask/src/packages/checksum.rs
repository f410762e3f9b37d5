//! SHA-256 sums, by sha256sum(1).

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;

/// Returns the sum of a file in hexadecimal.
pub fn sha256(path: &Path) -> Result<String> {
    let mut sum = Command::new("sha256sum");
    let told = process::stdout_of(sum.arg("--binary").arg(path))?;
    // A name with odd bytes puts a backslash before the sum.
    let word = told.trim_start_matches('\\').split(' ').next();
    word.filter(|word| word.len() == 64)
        .map(str::to_owned)
        .with_context(|| format!("sha256sum said of {}: {}", path.display(), told.trim()))
}
