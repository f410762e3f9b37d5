//! The Debian package, by cargo-deb. Its files are those of `make install PREFIX=/usr`, and what
//! `[package.metadata.deb]` in crates/cli/Cargo.toml adds.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::checkout::Checkout;
use super::programs::{InstallPlaces, ReleasePrograms};
use super::tools::CargoTool;
use crate::process;

const CARGO_DEB: CargoTool = CargoTool { name: "cargo-deb", version: "3.7.0" };

/// Where Debian has libraries of this architecture.
const PLACES: InstallPlaces =
    InstallPlaces { prefix: "/usr", libraries: "/usr/lib/x86_64-linux-gnu" };

/// Builds the package and returns its path.
pub fn build(checkout: &Checkout, programs: &ReleasePrograms) -> Result<PathBuf> {
    // cargo-deb takes `target/release` in the metadata for this directory.
    let target = checkout.empty_dir("deb")?;
    let tree = target.join("release/tree");
    fs::create_dir_all(&tree)?;
    programs.install(checkout, &PLACES, &tree)?;
    symlink("nodeward", tree.join("usr/bin/nodeward-migratepages"))?;
    let made = target.join("nodeward.deb");
    let mut cargo_deb = checkout.command(CARGO_DEB.path()?);
    cargo_deb.args(["--no-build", "--no-strip", "--package", "nodeward-cli", "--output"]);
    process::run(cargo_deb.arg(&made).env("CARGO_TARGET_DIR", &target))?;
    // Whoever reads an earlier one goes on reading it.
    let deb = checkout.out.join(format!("nodeward_{}-1_amd64.deb", checkout.version));
    fs::rename(&made, &deb).with_context(|| format!("writing {}", deb.display()))?;
    Ok(deb)
}
