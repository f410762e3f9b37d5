//! The programs that run inside the lab, built without shared libraries: a guest has none.
//!
//! They are `nodeward` and every program of the lab's package except `nodeward-lab`, which stays on
//! the host. `--target` is given although it is the host's own, because only then cargo keeps
//! `crt-static` away from procedural macros, which cannot be static.

use std::env;
use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::process;
use crate::workspace::Workspace;

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Builds the programs and prints their paths.
pub fn run() -> Result<()> {
    for path in build()? {
        println!("{}", path.display());
    }
    Ok(())
}

/// Builds the programs and returns their paths, `nodeward` first.
pub fn build() -> Result<Vec<PathBuf>> {
    let workspace = Workspace::load()?;
    let programs = programs(&workspace);
    let mut cargo = process::cargo();
    cargo.args(["build", "--release", "--target", TARGET]);
    for (package, program) in &programs {
        cargo.args(["-p", package, "--bin", program]);
    }
    process::run(cargo.env("RUSTFLAGS", static_flags()))?;
    let dir = dir(&workspace);
    let paths: Vec<PathBuf> = programs.iter().map(|(_, program)| dir.join(program)).collect();
    for path in &paths {
        ensure!(path.is_file(), "cargo built no {}; is its name in Cargo.toml?", path.display());
    }
    Ok(paths)
}

/// Where the programs are put.
pub fn dir(workspace: &Workspace) -> PathBuf {
    workspace.target_directory.join(TARGET).join("release")
}

fn programs(workspace: &Workspace) -> Vec<(&str, &str)> {
    let ours = workspace.targets("bin").filter(|(package, _)| *package == "nodeward-cli");
    let labs = workspace
        .targets("bin")
        .filter(|(package, program)| *package == "nodeward-lab" && *program != "nodeward-lab");
    ours.chain(labs).collect()
}

fn static_flags() -> String {
    let given = env::var("RUSTFLAGS").unwrap_or_default();
    format!("{given} -C target-feature=+crt-static").trim_start().to_owned()
}
