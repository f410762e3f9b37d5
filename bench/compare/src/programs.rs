//! The guest's programs: ours, which `cargo xtask guest` builds, and those of Debian.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use nodeward_lab::{GuestFile, Lab};

use crate::balancers::{BalancerSetup, GuestProgram};

/// The programs that every run needs.
const ALWAYS: [&str; 2] = ["nodeward-runner", "nodeward-stream"];

/// The directory of our programs.
#[derive(Clone, Debug)]
pub struct GuestPrograms {
    dir: PathBuf,
}

impl GuestPrograms {
    /// Uses our programs in this directory, which need no shared libraries.
    pub fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Returns the files of a run.
    ///
    /// # Errors
    /// If one is missing, or the archive cannot be reached.
    pub fn files(&self, lab: &Lab, contender: &BalancerSetup) -> Result<Vec<GuestFile>> {
        let mut files = ALWAYS
            .map(|name| self.workspace_program(name))
            .into_iter()
            .collect::<Result<Vec<_>>>()?;
        for program in &contender.programs {
            files.push(match program {
                GuestProgram::Ours(name) => self.workspace_program(name)?,
                GuestProgram::Debian(package, path) => {
                    GuestFile::new(lab.package_tree(package)?.join(path))
                }
            });
        }
        Ok(files)
    }

    /// Returns the files that measure the costs of a machine.
    ///
    /// # Errors
    /// If one is missing.
    pub fn of_costs(&self) -> Result<Vec<GuestFile>> {
        ["nodeward-bench", "nodeward-stream"]
            .map(|name| self.workspace_program(name))
            .into_iter()
            .collect()
    }

    fn workspace_program(&self, name: &str) -> Result<GuestFile> {
        let path = self.dir.join(name);
        let shown = path.display();
        ensure!(path.is_file(), "no {shown}: `cargo xtask lab compare` builds it");
        Ok(GuestFile::new(path))
    }
}

impl GuestPrograms {
    /// Returns the programs in the directory that `cargo xtask` names in the environment.
    ///
    /// # Errors
    /// If none is named.
    pub fn from_environment() -> Result<Self> {
        let dir = std::env::var_os("NODEWARD_GUEST_DIR");
        let dir =
            dir.context("NODEWARD_GUEST_DIR is not set; `cargo xtask lab compare` sets it")?;
        Ok(Self::new(dir.into()))
    }
}
