//! All files of a release in one directory, with their SHA-256 sums.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use super::checkout::Checkout;
use super::checksum::sha256;
use super::programs::{InstallPlaces, ReleasePrograms};
use super::{archive, deb, image, sbom, wheel};
use crate::process;

/// Of the archive of programs, which is unpacked below any prefix.
const PLACES: InstallPlaces = InstallPlaces { prefix: "/usr/local", libraries: "/usr/local/lib" };

/// Makes all files and returns their directory.
pub fn build(checkout: &Checkout, programs: &ReleasePrograms) -> Result<PathBuf> {
    check_committed(checkout)?;
    let dir = of_programs(checkout, programs)?;
    wheel::build_all(checkout, &dir)?;
    let deb = deb::build(checkout, programs)?;
    fs::copy(&deb, dir.join(deb.file_name().unwrap_or_default()))?;
    write_sums(&dir)?;
    Ok(dir)
}

/// Makes the files that need neither further programs nor another build.
pub fn of_programs(checkout: &Checkout, programs: &ReleasePrograms) -> Result<PathBuf> {
    let dir = checkout.empty_dir("release")?;
    let name = format!("nodeward-{}", checkout.version);
    sources(checkout, &name, &dir)?;
    installed(checkout, programs, &name, &dir)?;
    let layout = image::build(checkout, programs)?;
    archive::tar(checkout, &layout, &dir.join(format!("{name}-image.tar")))?;
    sbom::write(checkout, &dir.join(format!("{name}.cdx.json")))?;
    write_sums(&dir)?;
    Ok(dir)
}

/// The sources are those of the last commit, so the programs must be, too.
fn check_committed(checkout: &Checkout) -> Result<()> {
    let mut git = checkout.command("git");
    let changed = process::stdout_of(git.args(["status", "--porcelain"]))?;
    ensure!(changed.is_empty(), "a release is made of what is committed; commit first:\n{changed}");
    Ok(())
}

fn sources(checkout: &Checkout, name: &str, dir: &Path) -> Result<()> {
    let tar = checkout.out.join("sources.tar");
    let mut git = checkout.command("git");
    git.args(["archive", "--format=tar", "HEAD"]).arg(format!("--prefix={name}/"));
    let output = File::create(&tar).with_context(|| format!("creating {}", tar.display()))?;
    let status = git.stdout(Stdio::from(output)).status().context("failed to start git")?;
    ensure!(status.success(), "git archive ended with {status}");
    archive::gzip(&tar, &dir.join(format!("{name}.tar.gz")))
}

/// The programs as `make install` installs them.
fn installed(
    checkout: &Checkout,
    programs: &ReleasePrograms,
    name: &str,
    dir: &Path,
) -> Result<()> {
    let tree = checkout.empty_dir("installed")?;
    programs.install(checkout, &PLACES, &tree)?;
    let packed = checkout.empty_dir("binary")?;
    let name = format!("{name}-x86_64-linux");
    fs::rename(tree.join("usr/local"), packed.join(&name))?;
    let tar = checkout.out.join("binary.tar");
    archive::tar(checkout, &packed, &tar)?;
    archive::gzip(&tar, &dir.join(format!("{name}.tar.gz")))
}

/// Writes what `sha256sum --check SHA256SUMS` reads.
fn write_sums(dir: &Path) -> Result<()> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != SUMS {
            lines.push(format!("{}  {name}\n", sha256(&dir.join(&name))?));
        }
    }
    lines.sort_by(|a, b| a[64..].cmp(&b[64..]));
    Ok(fs::write(dir.join(SUMS), lines.concat())?)
}

pub const SUMS: &str = "SHA256SUMS";
