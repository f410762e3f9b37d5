//! Finds the binaries that the lab brings into its machines (the guest's first process, and the
//! emulator's counter), and builds them if the lab runs from its sources.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A binary to find or build.
struct Artifact {
    description: &'static str,
    /// The environment variable that names a built one.
    env_variable: &'static str,
    /// Its sources, relative to those of the lab.
    source_dir: &'static str,
    /// The file name.
    file_name: &'static str,
    /// Arguments for cargo.
    cargo_target: &'static [&'static str],
    rustflags: &'static str,
}

const INIT: Artifact = Artifact {
    description: "the guest's first process",
    env_variable: "NODEWARD_LAB_INIT",
    source_dir: "agent",
    file_name: "nodeward-lab-init",
    cargo_target: &["--bin", "nodeward-lab-init"],
    rustflags: "-Ctarget-feature=+crt-static",
};

const COUNTER: Artifact = Artifact {
    description: "the counter",
    env_variable: "NODEWARD_LAB_COUNTER",
    source_dir: "counter",
    file_name: "libnodeward_lab_counter.so",
    cargo_target: &["--lib"],
    rustflags: "",
};

/// Finds the guest's first process: `$NODEWARD_LAB_INIT`, or built from the lab's sources, or
/// beside this executable.
pub fn init_program() -> Result<PathBuf> {
    find_or_build(&INIT)
}

/// Finds the emulator's counter in the same way; its variable is `$NODEWARD_LAB_COUNTER`.
pub fn counter_plugin() -> Result<PathBuf> {
    find_or_build(&COUNTER)
}

fn find_or_build(piece: &Artifact) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(piece.env_variable) {
        return Ok(path.into());
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join(piece.source_dir);
    if sources.join("Cargo.toml").exists() {
        return build(piece, &sources)
            .with_context(|| format!("cannot build {}", piece.description));
    }
    let beside = std::env::current_exe()?.with_file_name(piece.file_name);
    match beside.exists() {
        true => Ok(beside),
        false => bail!(
            "no {} beside this program: install it there, or set {}",
            piece.file_name,
            piece.env_variable
        ),
    }
}

/// Builds it in a separate target directory, because the outer build may hold its lock.
fn build(piece: &Artifact, sources: &Path) -> Result<PathBuf> {
    let target_dir = sources.join("../../target/lab-init");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--target", TARGET])
        .args(piece.cargo_target)
        .arg("--target-dir")
        .arg(&target_dir)
        .current_dir(sources)
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS", piece.rustflags)
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .output()
        .context("cannot run cargo")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo build failed:\n{told}");
    Ok(target_dir.join(TARGET).join("release").join(piece.file_name))
}
