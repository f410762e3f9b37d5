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

use super::checkout::Checkout;
use super::programs;
use crate::aarch64;
use crate::guest;
use crate::process;
use crate::workspace::Workspace;

/// What builds, as pip names it: of a fixed version, because wheels of another one may differ.
const TOOLS: [&str; 2] = ["maturin==1.16.0", "ziglang==0.17.1"];
/// The oldest C library.
const COMPATIBILITY: &str = "manylinux_2_28";
const TARGETS: [&str; 2] = [guest::TARGET, aarch64::TARGET];

/// Builds the wheels into a directory. If one cannot be built, the other is.
pub fn build_all(checkout: &Checkout, out: &Path) -> Result<()> {
    let tools = tools()?;
    let mut failures = Vec::new();
    for target in TARGETS {
        if let Err(error) = build(checkout, &tools, target, out) {
            eprintln!("error: no wheel for {target}: {error:#}");
            failures.push(target);
        }
    }
    match failures.is_empty() {
        true => Ok(()),
        false => bail!("no wheel for {}; see above", failures.join(", ")),
    }
}

/// Returns the directory of the programs that build, which are installed when first needed.
fn tools() -> Result<PathBuf> {
    let name = TOOLS.join("-").replace("==", "-");
    let environment = Workspace::load()?.target_directory.join("tools").join(name);
    let (programs, complete) = (environment.join("bin"), environment.join("complete"));
    if complete.exists() {
        return Ok(programs);
    }
    let missing = "python3 with the module venv is needed (Debian: apt install python3-venv)";
    let mut make = Command::new("python3");
    process::run(make.args(["-m", "venv", "--clear"]).arg(&environment)).context(missing)?;
    let mut pip = Command::new(programs.join("python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(TOOLS);
    process::run(&mut pip).context("Python's package index must be reachable, once")?;
    fs::write(&complete, "").with_context(|| format!("writing {}", complete.display()))?;
    Ok(programs)
}

fn build(checkout: &Checkout, tools: &Path, target: &str, out: &Path) -> Result<()> {
    let mut maturin = checkout.command(tools.join("maturin"));
    maturin.args(["build", "--release", "--locked", "--zig", "--compatibility", COMPATIBILITY]);
    maturin.args(["--target", target, "--manifest-path", "python/Cargo.toml", "--out"]).arg(out);
    maturin.env("CARGO_TARGET_DIR", programs::target_dir(checkout, "nodeward-python"));
    maturin.env(programs::FLAGS, programs::flags(checkout, &[])).env("PATH", path(tools)?);
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
