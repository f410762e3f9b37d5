//! The programs that all packages contain: the command without shared libraries, which runs under
//! any C library and in an empty image, and the C library.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{self, Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::checkout::Checkout;
use crate::{guest, process};

/// The command, and the library.
const FILES: [&str; 3] = ["nodeward", "libnodeward.so", "libnodeward.a"];

/// Which programs are packaged.
#[derive(clap::Args)]
pub struct ProgramsArgs {
    /// Package the `nodeward`, `libnodeward.so` and `libnodeward.a` of this directory, instead of
    /// building them
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

impl ProgramsArgs {
    /// Returns the programs that are built already, if they were named.
    pub fn given(&self) -> Result<Option<ReleasePrograms>> {
        self.programs.as_deref().map(ReleasePrograms::of).transpose()
    }

    /// Returns these, or builds some.
    pub fn of(&self, checkout: &Checkout) -> Result<ReleasePrograms> {
        self.given()?.map_or_else(|| ReleasePrograms::build(checkout), Ok)
    }
}

/// The built programs, all in one directory.
#[derive(Debug)]
pub struct ReleasePrograms {
    dir: PathBuf,
}

/// Where `make install` puts things.
pub struct InstallPlaces {
    pub prefix: &'static str,
    pub libraries: &'static str,
}

impl ReleasePrograms {
    /// Takes programs that are built already.
    pub fn of(dir: &Path) -> Result<Self> {
        let absent = FILES.iter().find(|name| !dir.join(name).is_file());
        if let Some(name) = absent {
            bail!("{} has no {name}; build it there, or leave the directory out", dir.display());
        }
        Ok(Self { dir: path::absolute(dir)? })
    }

    /// Builds them of a checkout, without the C allocators, which only a benchmark uses.
    pub fn build(checkout: &Checkout) -> Result<Self> {
        let dir = checkout.empty_dir("programs")?;
        let command = ["-p", "nodeward-cli", "--bin", "nodeward"];
        build(checkout, &guest::STATIC_FLAGS, &command, &FILES[..1], &dir)?;
        build(checkout, &[], &["-p", "nodeward-capi"], &FILES[1..], &dir)?;
        Self::of(&dir)
    }

    /// Returns where they are.
    #[cfg(test)]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn command(&self) -> PathBuf {
        self.dir.join("nodeward")
    }

    /// Installs them, and all that belongs to them, as `make install` does. `into` stands for `/`.
    pub fn install(&self, checkout: &Checkout, places: &InstallPlaces, into: &Path) -> Result<()> {
        let mut make = checkout.command("make");
        // The variables of a make that runs this would win.
        make.env_remove("MAKEFLAGS").env_remove("MAKELEVEL");
        make.args(["--silent", "install", "CARGO=true"]);
        make.arg(format!("BUILT={}", self.dir.display()));
        make.arg(format!("PREFIX={}", places.prefix)).arg(format!("LIBDIR={}", places.libraries));
        process::run(make.arg(format!("DESTDIR={}", into.display())))
    }
}

/// Builds with these flags for the compiler, and copies the files to a directory.
fn build(
    checkout: &Checkout,
    flags: &[&str],
    what: &[&str],
    files: &[&str],
    into: &Path,
) -> Result<()> {
    let target = target_dir(checkout, what[1]);
    let mut cargo = checkout.command(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--locked", "--no-default-features"]);
    cargo.args(["--target", guest::TARGET]).args(what).env("CARGO_TARGET_DIR", &target);
    process::run(cargo.env(FLAGS, self::flags(checkout, flags)))?;
    let built = target.join(guest::TARGET).join("release");
    for file in files {
        let from = built.join(file);
        fs::copy(&from, into.join(file)).with_context(|| format!("copying {}", from.display()))?;
    }
    Ok(())
}

/// Returns where cargo builds a package: each has a directory of its own, because cargo builds all
/// anew when flags change.
pub fn target_dir(checkout: &Checkout, package: &str) -> PathBuf {
    checkout.out.join("build").join(package)
}

/// The variable with the flags for the compiler.
pub const FLAGS: &str = "CARGO_ENCODED_RUSTFLAGS";

/// Returns the value of [`FLAGS`]: these, and those with which a build does not depend on where it
/// is.
pub fn flags(checkout: &Checkout, more: &[&str]) -> OsString {
    let flags = more.iter().map(OsString::from).chain(short_paths(checkout));
    flags.collect::<Vec<_>>().join(FLAG_SEPARATOR.as_ref())
}

/// Separates them, so that paths may have blanks.
const FLAG_SEPARATOR: &str = "\x1f";

/// Names the directories of this machine in the compiler's messages alike everywhere: those texts
/// are in the programs.
fn short_paths(checkout: &Checkout) -> impl Iterator<Item = OsString> {
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    let cargo = env::var_os("CARGO_HOME").map(PathBuf::from).or(home);
    let short = [(Some(checkout.root.clone()), "/nodeward"), (cargo, "/cargo")];
    short.into_iter().filter_map(|(from, to)| {
        let mut flag = OsString::from("--remap-path-prefix=");
        flag.push(from?);
        flag.push("=");
        flag.push(to);
        Some(flag)
    })
}
