//! Wheels of the package for Python, for x86-64 and for Arm, each for every Python from 3.11 on.
//!
//! maturin builds them. zig links them, so that they run with every C library from glibc 2.28 on,
//! and so that Arm needs no linker of its own. Both come from Python's package index, into an
//! environment below the target directory.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};

use crate::aarch64;
use crate::process;
use crate::workspace::{self, Workspace};

/// What builds, as pip names it.
const TOOLS: [&str; 2] = ["maturin>=1.9,<2", "ziglang"];
/// The oldest C library.
const COMPATIBILITY: &str = "manylinux_2_28";
const X86_64: &str = "x86_64-unknown-linux-gnu";

/// Builds the wheels and prints their paths. If one cannot be built, the other is.
pub fn run() -> Result<()> {
    let workspace = Workspace::load()?;
    let out = workspace.target_directory.join("wheels");
    let tools = tools(&workspace.target_directory.join("wheel-tools"))?;
    // Wheels of other versions.
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("clearing {}", out.display()))?;
    }
    let mut failures = Vec::new();
    for target in [X86_64, aarch64::TARGET] {
        if let Err(error) = build(&tools, target, &out) {
            eprintln!("error: no wheel for {target}: {error:#}");
            failures.push(target);
        }
    }
    for file in fs::read_dir(&out).into_iter().flatten().flatten() {
        println!("{}", file.path().display());
    }
    match failures.is_empty() {
        true => Ok(()),
        false => bail!("no wheel for {}; see above", failures.join(", ")),
    }
}

/// Returns the directory of the programs that build, which are installed when first needed.
fn tools(environment: &Path) -> Result<PathBuf> {
    let (programs, complete) = (environment.join("bin"), environment.join("complete"));
    if complete.exists() {
        return Ok(programs);
    }
    let missing = "python3 with the module venv is needed (Debian: apt install python3-venv)";
    let mut make = Command::new("python3");
    process::run(make.args(["-m", "venv", "--clear"]).arg(environment)).context(missing)?;
    let mut pip = Command::new(programs.join("python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(TOOLS);
    process::run(&mut pip).context("Python's package index must be reachable, once")?;
    fs::write(&complete, "").with_context(|| format!("writing {}", complete.display()))?;
    Ok(programs)
}

fn build(tools: &Path, target: &str, out: &Path) -> Result<()> {
    let mut maturin = Command::new(tools.join("maturin"));
    maturin.args(["build", "--release", "--locked", "--zig", "--compatibility", COMPATIBILITY]);
    maturin.args(["--target", target, "--manifest-path", "python/Cargo.toml", "--out"]).arg(out);
    maturin.current_dir(workspace::root()).env("PATH", path(tools)?);
    if target == aarch64::TARGET
        && let Some(rustc) = aarch64::compiler()?
    {
        maturin.env("RUSTC", rustc);
    }
    process::run(&mut maturin)
}

/// Programs are found in this directory first: maturin asks for zig there.
fn path(first: &Path) -> Result<OsString> {
    let path = env::var_os("PATH").unwrap_or_default();
    let all = [first.to_owned()].into_iter().chain(env::split_paths(&path));
    env::join_paths(all).map_err(|error| anyhow!("PATH cannot be used: {error}"))
}
