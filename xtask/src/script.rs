//! The demo and the benchmark are scripts of the repository. This module builds their programs and
//! passes the paths in variables, so that a script never guesses a path:
//!
//! - `NODEWARD_FEATURES`: cargo's words for their features
//! - `NODEWARD`: the command for this machine
//! - `NODEWARD_LAB`: the lab's command for this machine
//! - `NODEWARD_GUEST_DIR`: the static programs for inside the lab
//! - `NODEWARD_LAB_INIT`: the one among them that a guest starts first

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use anyhow::{Result, ensure};

use crate::profile::Profile;
use crate::workspace::{self, Workspace};
use crate::{guest, process};

/// What the script is to be told.
#[derive(clap::Args)]
pub struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Builds everything and runs a script given by its path in the repository.
pub fn run(script: &str, args: &Args) -> Result<ExitCode> {
    let path = workspace::root().join(script);
    ensure!(path.is_file(), "this checkout has no {script}; `git status` tells if it was removed");
    build(Profile::Release)?;
    let mut command = Command::new(path);
    set_environment(&mut command, Profile::Release)?;
    process::run_for_exit_code(command.args(&args.words))
}

/// Builds the programs for this machine and for the lab's guest.
pub fn build(profile: Profile) -> Result<()> {
    process::run(&mut profile.build_command())?;
    guest::build(profile).map(drop)
}

/// Adds the variables with the paths of the programs, and sets the root of the repository as
/// directory.
pub fn set_environment(command: &mut Command, profile: Profile) -> Result<()> {
    let workspace = Workspace::load()?;
    let host = workspace.target_directory.join(profile.folder());
    command.current_dir(workspace::root());
    command.env("NODEWARD_FEATURES", profile.features().join(" "));
    command.env("NODEWARD", host.join("nodeward"));
    command.env("NODEWARD_LAB", host.join("nodeward-lab"));
    guest::set_environment(command, &workspace, profile);
    Ok(())
}
