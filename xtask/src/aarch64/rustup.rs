//! The target from rustup. Where only package registries can be reached, rustup waits for minutes.
//! It therefore gets a few seconds, and the rest of an aborted attempt is removed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use super::target::TARGET;
use crate::process;

const PATIENCE: &str = "15s";

/// Returns whether the compiler in use has a complete standard library for the target.
pub fn is_installed() -> bool {
    let mut rustc = Command::new("rustc");
    rustc.args(["--print", "target-libdir", "--target", TARGET]);
    let dir = process::stdout_of(&mut rustc).unwrap_or_default();
    names(Path::new(dir.trim())).iter().any(|name| {
        let name = name.to_string_lossy();
        name.starts_with("libstd-") && name.ends_with(".rlib")
    })
}

/// Lets rustup install the target, if it can do so quickly.
pub fn fetch() -> Result<()> {
    if is_installed() {
        return Ok(());
    }
    if process::find("rustup").is_none() {
        bail!("rustup is not installed");
    }
    let before = downloads();
    let mut add = Command::new("timeout");
    add.args(["--signal=INT", "--kill-after=5s", PATIENCE, "rustup", "target", "add", TARGET]);
    if process::run(&mut add).is_ok() && is_installed() {
        return Ok(());
    }
    clean_up(&before);
    bail!("`rustup target add {TARGET}` did not finish in {PATIENCE}; run it by hand to see why")
}

fn clean_up(before: &BTreeSet<OsString>) {
    let Some(dir) = download_dir() else { return };
    for name in downloads().difference(before) {
        if let Err(error) = fs::remove_file(dir.join(name)) {
            eprintln!("left behind: {}: {error}", dir.join(name).display());
        }
    }
    process::succeeds(Command::new("rustup").args(["target", "remove", TARGET]));
}

fn downloads() -> BTreeSet<OsString> {
    download_dir().map(|dir| names(&dir)).unwrap_or_default()
}

fn download_dir() -> Option<PathBuf> {
    let home = process::stdout_of(Command::new("rustup").args(["show", "home"])).ok()?;
    Some(PathBuf::from(home.trim()).join("downloads"))
}

fn names(dir: &Path) -> BTreeSet<OsString> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    entries.flatten().map(|entry| entry.file_name()).collect()
}
