//! The header of the C library, generated from its source by cbindgen (`build.rs`). It is
//! committed, so that C programmers can read it without cargo; a test fails when it differs from
//! the source.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::workspace;

const GENERATED: &str = include_str!(concat!(env!("OUT_DIR"), "/nodeward.h"));

/// Writes the header.
pub fn run() -> Result<()> {
    ensure!(!GENERATED.is_empty(), "cbindgen cannot read crates/capi; cargo's warning says why");
    let path = path();
    fs::write(&path, GENERATED).with_context(|| format!("writing {}", path.display()))
}

fn path() -> PathBuf {
    workspace::root().join("include/nodeward.h")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_header_is_that_of_the_source() {
        let committed = fs::read_to_string(path()).unwrap_or_default();
        assert!(
            committed == GENERATED,
            "include/nodeward.h is not what crates/capi says; run `cargo xtask header` and commit"
        );
    }
}
