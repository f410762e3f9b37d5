//! Builds the programs that run inside the lab without shared libraries, because a guest has none.
//!
//! They are all programs of the workspace except those of the host: xtask and the lab's commands.
//! `--target` is given although it is the host's own, because only then cargo keeps `crt-static`
//! away from procedural macros, which cannot be static.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};

use crate::process;
use crate::profile::Profile;
use crate::workspace::Workspace;

/// The target of static programs.
pub const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Flags of the compiler for programs that need no shared library.
pub const STATIC_FLAGS: [&str; 2] = ["-Ctarget-feature=+crt-static", "-Crelocation-model=static"];

/// Programs that no guest starts.
const HOST_ONLY: [&str; 3] = ["xtask", "nodeward-lab", "nodeward-compare"];

/// Builds the programs and prints their paths.
pub fn run() -> Result<()> {
    for path in build(Profile::Release)? {
        println!("{}", path.display());
    }
    Ok(())
}

/// Builds the programs and returns their paths.
pub fn build(profile: Profile) -> Result<Vec<PathBuf>> {
    let workspace = Workspace::load()?;
    let programs = programs(&workspace);
    let mut cargo = process::cargo();
    // Without the C allocators that `nodeward bench pool` measures: their benchmarks run on the
    // host.
    cargo.args(["build", "--profile", name(profile), "--no-default-features", "--target", TARGET]);
    for (package, program) in &programs {
        cargo.args(["-p", package, "--bin", program]);
    }
    process::run(cargo.env("RUSTFLAGS", static_flags()))?;
    let dir = dir(&workspace, profile);
    let paths: Vec<PathBuf> = programs.iter().map(|(_, program)| dir.join(program)).collect();
    for path in &paths {
        ensure!(path.is_file(), "cargo built no {}; is its name in Cargo.toml?", path.display());
    }
    Ok(paths)
}

/// Returns the directory of the programs.
pub fn dir(workspace: &Workspace, profile: Profile) -> PathBuf {
    workspace.target_directory.join(TARGET).join(name(profile))
}

/// Names the programs to a command that boots a lab, the guest's first process among them.
pub fn set_environment(command: &mut Command, workspace: &Workspace, profile: Profile) {
    let dir = dir(workspace, profile);
    command.env("NODEWARD_LAB_INIT", dir.join("nodeward-lab-init"));
    command.env("NODEWARD_GUEST_DIR", dir);
}

/// Returns cargo's name of the profile, which is also its directory.
fn name(profile: Profile) -> &'static str {
    match profile {
        Profile::Release => "release",
        // Not `dev`: unoptimized code is too slow for emulated CPUs.
        Profile::Dev => "guest",
    }
}

fn programs(workspace: &Workspace) -> Vec<(&str, &str)> {
    workspace.targets("bin").filter(|(_, program)| !HOST_ONLY.contains(program)).collect()
}

fn static_flags() -> String {
    let given = env::var("RUSTFLAGS").unwrap_or_default();
    format!("{given} {}", STATIC_FLAGS.join(" ")).trim_start().to_owned()
}
