//! Archives that depend on names, links and content of files alone: by GNU tar and gzip, with
//! owner, modes, order and times given.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::checkout::Checkout;
use crate::process;

/// Writes what is in a directory as a tar file.
pub fn tar(checkout: &Checkout, dir: &Path, to: &Path) -> Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))?;
    let names = entries.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>>>()?;
    let mut tar = Command::new("tar");
    tar.env("LC_ALL", "C").arg("--create").arg("--file").arg(to).arg("--directory").arg(dir);
    tar.args(["--sort=name", "--format=ustar", "--owner=root:0", "--group=root:0"]);
    tar.args(["--numeric-owner", "--mode=u=rwX,go=rX"]);
    tar.arg(format!("--mtime=@{}", checkout.epoch_s)).arg("--").args(sorted(names));
    process::stdout_of(&mut tar).map(drop)
}

/// `--sort` holds below directories only.
fn sorted<T: Ord>(mut names: Vec<T>) -> Vec<T> {
    names.sort();
    names
}

/// Compresses a file to `to`, without its name and time.
pub fn gzip(from: &Path, to: &Path) -> Result<()> {
    let output = File::create(to).with_context(|| format!("creating {}", to.display()))?;
    let mut gzip = Command::new("gzip");
    gzip.args(["-9", "--no-name", "--stdout"]).arg(from).stdout(Stdio::from(output));
    let status = gzip.status().context("failed to start gzip; install it")?;
    ensure!(status.success(), "gzip of {} ended with {status}", from.display());
    Ok(())
}
