//! Debian's own compiler, unpacked into our cache. Nothing is installed and the system's package
//! state is only read, so neither root nor a foreign architecture is needed.
//!
//! Layout of `$XDG_CACHE_HOME/nodeward/aarch64`: `rustc` (a script that starts the unpacked
//! compiler with its libraries; written last, so its presence means that the cache is complete) and
//! `tree/`.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::archive::AptArchive;
use super::target::TARGET;
use crate::process;
use crate::workspace::Workspace;

/// Package families with a compiler: its package, and the one with its standard library.
const FAMILIES: &[(&str, &str)] =
    &[("rustc", "libstd-rust-dev"), ("rustc-web", "libstd-rust-web-dev")];

/// Returns the compiler, if the cache has one that is new enough.
pub fn cached() -> Result<Option<PathBuf>> {
    let rustc = cache()?.join("rustc");
    Ok(check(&rustc).is_ok().then_some(rustc))
}

/// Returns the compiler, downloaded from the archive unless the cache has it.
pub fn fetch() -> Result<PathBuf> {
    if let Some(rustc) = cached()? {
        return Ok(rustc);
    }
    let cache = cache()?;
    let archive = AptArchive::open(cache.join("apt"))?;
    let rustc = install(&archive, &cache);
    archive.close()?;
    let rustc = rustc?;
    check(&rustc)?;
    Ok(rustc)
}

fn install(archive: &AptArchive, cache: &Path) -> Result<PathBuf> {
    let wanted = Workspace::load()?.rust_version()?.to_owned();
    archive.update()?;
    let (compiler, library) = pick(archive, &wanted)?;
    eprintln!("fetching {compiler} of Debian into {}", cache.display());
    archive.download(compiler, library)?;
    unpack(&archive.debs()?, cache)
}

fn pick<'a>(archive: &AptArchive, wanted: &str) -> Result<(&'a str, &'a str)> {
    for (compiler, library) in FAMILIES {
        let offered = archive.candidate(compiler)?;
        if offered.is_some_and(|offered| release(&offered) >= release(wanted)) {
            return Ok((compiler, library));
        }
    }
    bail!("Debian's archive offers no rustc >= {wanted}; `rustup target add {TARGET}` would do")
}

/// Parses the release of versions such as `1.96.0+dfsg1-1~deb12u2` and `1.95`, as numbers that
/// compare.
fn release(version: &str) -> (u32, u32) {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn unpack(debs: &[PathBuf], cache: &Path) -> Result<PathBuf> {
    let tree = cache.join("tree");
    if tree.exists() {
        fs::remove_dir_all(&tree).with_context(|| format!("clearing {}", tree.display()))?;
    }
    for deb in debs {
        process::run(Command::new("dpkg-deb").arg("-x").arg(deb).arg(&tree))?;
    }
    write_starter(&tree, &cache.join("rustc"))
}

fn write_starter(tree: &Path, starter: &Path) -> Result<PathBuf> {
    let (lib, real) = (tree.join("usr/lib/x86_64-linux-gnu"), tree.join("usr/bin/rustc"));
    ensure!(real.exists(), "the packages brought no {}", real.display());
    let text = format!(
        "#!/bin/sh\nLD_LIBRARY_PATH='{}' exec '{}' \"$@\"\n",
        lib.display(),
        real.display()
    );
    fs::write(starter, text).with_context(|| format!("writing {}", starter.display()))?;
    fs::set_permissions(starter, fs::Permissions::from_mode(0o755))?;
    Ok(starter.to_path_buf())
}

/// Checks that the compiler starts, is new enough, and has the target.
fn check(rustc: &Path) -> Result<()> {
    let words = process::stdout_of(Command::new(rustc).arg("--version"))?;
    let version = words.split(' ').nth(1).unwrap_or_default();
    let workspace = Workspace::load()?;
    let wanted = workspace.rust_version()?;
    ensure!(release(version) >= release(wanted), "{} is older than {wanted}", words.trim());
    let mut libdir = Command::new(rustc);
    libdir.args(["--print", "target-libdir", "--target", TARGET]);
    let dir = process::stdout_of(&mut libdir)?;
    ensure!(
        Path::new(dir.trim()).is_dir(),
        "{} has no standard library for {TARGET}",
        words.trim()
    );
    Ok(())
}

fn cache() -> Result<PathBuf> {
    let given = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute());
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let base = given.or_else(home).context("neither XDG_CACHE_HOME nor HOME is set; set one")?;
    Ok(base.join("nodeward/aarch64"))
}

#[cfg(test)]
mod tests {
    use super::release;

    #[test]
    fn releases_compare_as_numbers() {
        assert!(release("1.96.0+dfsg1-1~deb12u2") > release("1.95"));
        assert!(release("1.100.0") > release("1.95"));
        assert!(release("1.85.0+dfsg3-1") < release("1.95"));
        assert!(release("(none)") < release("1.0"));
    }
}
