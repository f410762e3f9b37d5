//! The header of the C library, generated from its source by cbindgen. It is committed, so that C
//! programmers can read it without cargo; a test fails when it differs from the source.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::workspace;

/// Writes the header.
pub fn run() -> Result<()> {
    let path = path();
    fs::write(&path, generate()?).with_context(|| format!("writing {}", path.display()))
}

fn path() -> PathBuf {
    workspace::root().join("include/nodeward.h")
}

fn generate() -> Result<String> {
    let capi = workspace::root().join("crates/capi");
    let config =
        cbindgen::Config::from_file(capi.join("cbindgen.toml")).map_err(anyhow::Error::msg)?;
    let builder = cbindgen::Builder::new().with_src(capi.join("src/lib.rs")).with_config(config);
    let mut header = Vec::new();
    builder.generate().context("cbindgen cannot read crates/capi")?.write(&mut header);
    String::from_utf8(header).context("the header is not UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_header_is_that_of_the_source() {
        let committed = fs::read_to_string(path()).unwrap_or_default();
        assert!(
            committed == generate().unwrap(),
            "include/nodeward.h is not what crates/capi says; run `cargo xtask header` and commit"
        );
    }
}
