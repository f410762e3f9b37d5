//! The build profile of the programs that scripts and tests start.

use std::process::Command;

use crate::check_extent::CheckExtent;
use crate::process;

/// The build profile of programs, for this machine and for guests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Profile {
    /// As users build them.
    Release,
    /// As the tests build them, which is mostly done by then. Measurements of these programs mean
    /// nothing.
    Dev,
}

impl Profile {
    /// Cargo's folder for this machine's programs.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Dev => "debug",
        }
    }

    /// Returns the command that builds this machine's programs.
    pub fn build_command(self) -> Command {
        let words: &[&str] = match self {
            Self::Release => &["build", "--release", "-p", "nodeward-cli", "-p", "nodeward-lab"],
            // With the tests, because alone they would be built with fewer features. The library
            // for C is among them, although no test depends on it.
            Self::Dev => &["build", "--workspace", "--lib", "--tests", "--examples"],
        };
        let mut cargo = process::cargo();
        cargo.args(words).args(self.features());
        cargo
    }

    /// Returns cargo's words for the features of these programs.
    pub fn features(self) -> &'static [&'static str] {
        match self {
            Self::Release => &[],
            Self::Dev => CheckExtent::from_environment().features(),
        }
    }
}
