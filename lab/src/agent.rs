//! Finds the guest's first process, and makes it where the lab runs from its sources.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// The name of the program.
const NAME: &str = "nodeward-lab-init";
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The program: `$NODEWARD_LAB_INIT`, or built from the lab's sources, or beside this executable.
pub fn locate() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("NODEWARD_LAB_INIT") {
        return Ok(path.into());
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("agent");
    if sources.join("Cargo.toml").exists() {
        return build(&sources).context("cannot build the guest's first process");
    }
    let beside = std::env::current_exe()?.with_file_name(NAME);
    match beside.exists() {
        true => Ok(beside),
        false => bail!("no {NAME} beside this program: install it there, or set NODEWARD_LAB_INIT"),
    }
}

/// Builds it, statically linked, in a target directory of its own: the outer build may hold its
/// lock.
fn build(sources: &Path) -> Result<PathBuf> {
    let target_dir = sources.join("../../target/lab-init");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--bin", NAME, "--target", TARGET])
        .arg("--target-dir")
        .arg(&target_dir)
        .current_dir(sources)
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS", "-Ctarget-feature=+crt-static")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .output()
        .context("cannot run cargo")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo build failed:\n{told}");
    Ok(target_dir.join(TARGET).join("release").join(NAME))
}
