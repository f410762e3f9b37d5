//! Finds the binaries that the lab brings into its machines (the guest's first process, and the
//! emulator's counter), and builds them if the lab runs from its sources.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// A binary to find or build.
struct Piece {
    what: &'static str,
    /// The environment variable that names a built one.
    variable: &'static str,
    /// Its sources, relative to those of the lab.
    sources: &'static str,
    /// The file name.
    file: &'static str,
    /// Arguments for cargo.
    target: &'static [&'static str],
    flags: &'static str,
}

const INIT: Piece = Piece {
    what: "the guest's first process",
    variable: "NODEWARD_LAB_INIT",
    sources: "agent",
    file: "nodeward-lab-init",
    target: &["--bin", "nodeward-lab-init"],
    flags: "-Ctarget-feature=+crt-static",
};

const COUNTER: Piece = Piece {
    what: "the counter",
    variable: "NODEWARD_LAB_COUNTER",
    sources: "counter",
    file: "libnodeward_lab_counter.so",
    target: &["--lib"],
    flags: "",
};

/// Finds the guest's first process: `$NODEWARD_LAB_INIT`, or built from the lab's sources, or
/// beside this executable.
pub fn init() -> Result<PathBuf> {
    locate(&INIT)
}

/// Finds the emulator's counter in the same way; its variable is `$NODEWARD_LAB_COUNTER`.
pub fn counter() -> Result<PathBuf> {
    locate(&COUNTER)
}

fn locate(piece: &Piece) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(piece.variable) {
        return Ok(path.into());
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join(piece.sources);
    if sources.join("Cargo.toml").exists() {
        return build(piece, &sources).with_context(|| format!("cannot build {}", piece.what));
    }
    let beside = std::env::current_exe()?.with_file_name(piece.file);
    match beside.exists() {
        true => Ok(beside),
        false => bail!(
            "no {} beside this program: install it there, or set {}",
            piece.file,
            piece.variable
        ),
    }
}

/// Builds it in a separate target directory, because the outer build may hold its lock.
fn build(piece: &Piece, sources: &Path) -> Result<PathBuf> {
    let target_dir = sources.join("../../target/lab-init");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--target", TARGET])
        .args(piece.target)
        .arg("--target-dir")
        .arg(&target_dir)
        .current_dir(sources)
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUSTFLAGS", piece.flags)
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .output()
        .context("cannot run cargo")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo build failed:\n{told}");
    Ok(target_dir.join(TARGET).join("release").join(piece.file))
}
