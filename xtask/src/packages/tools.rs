//! Programs of cargo that packages need, each of a fixed version, installed below the target
//! directory.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::Workspace;

/// A program and its version.
pub struct CargoTool {
    pub name: &'static str,
    pub version: &'static str,
}

impl CargoTool {
    /// Returns the path of the program, installed if it is not there.
    pub fn path(&self) -> Result<PathBuf> {
        let root = Workspace::load()?.target_directory.join("tools").join(self.version_name());
        let program = root.join("bin").join(self.name);
        if !program.is_file() {
            let mut cargo = process::cargo();
            cargo.args(["install", "--locked", self.name, "--version", self.version]);
            cargo.arg("--root").arg(&root);
            process::run(&mut cargo).with_context(|| format!("installing {}", self.name))?;
        }
        Ok(program)
    }

    fn version_name(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }
}
