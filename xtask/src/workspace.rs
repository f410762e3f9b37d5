//! Cargo's data about this workspace: its packages, their targets and their dependencies.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::process;
pub use crate::repository::root;

/// The output of `cargo metadata --no-deps`, as far as we use it.
#[derive(Debug, Deserialize)]
pub struct Workspace {
    pub packages: Vec<Package>,
    pub target_directory: PathBuf,
}

/// One member of the workspace.
#[derive(Debug, Deserialize)]
pub struct Package {
    pub name: String,
    pub rust_version: Option<String>,
    pub manifest_path: PathBuf,
    pub dependencies: Vec<Dependency>,
    pub targets: Vec<CargoTarget>,
}

/// A dependency of a member. `path` is set for members only.
#[derive(Debug, Deserialize)]
pub struct Dependency {
    pub name: String,
    /// `None` for a normal dependency, else `dev` or `build`.
    pub kind: Option<String>,
    pub path: Option<PathBuf>,
}

/// A library, program or test of a member.
#[derive(Debug, Deserialize)]
pub struct CargoTarget {
    pub name: String,
    pub kind: Vec<String>,
}

impl Workspace {
    /// Runs cargo, without network.
    pub fn load() -> Result<Workspace> {
        let mut cargo = process::cargo();
        cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
        let text = process::stdout_of(&mut cargo)?;
        serde_json::from_str(&text).context("cargo metadata answered in an unknown shape")
    }

    /// Returns the targets of one kind (`bin`, `test`, ...), each with the name of its package.
    pub fn targets<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.packages.iter().flat_map(move |package| {
            let wanted = package.targets.iter().filter(move |t| t.kind.iter().any(|k| k == kind));
            wanted.map(|target| (package.name.as_str(), target.name.as_str()))
        })
    }

    /// Returns the oldest Rust that the workspace promises to build with.
    pub fn rust_version(&self) -> Result<&str> {
        let mut versions = self.packages.iter().filter_map(|p| p.rust_version.as_deref());
        versions.next().context("no member states `rust-version`; set it in the root Cargo.toml")
    }
}

impl Package {
    /// Returns the directory of the package, relative to the root: `crates/model`.
    pub fn dir(&self) -> &Path {
        let dir = self.manifest_path.parent().unwrap_or(&self.manifest_path);
        dir.strip_prefix(root()).unwrap_or(dir)
    }
}
