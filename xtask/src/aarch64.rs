//! `cargo check` for aarch64. The code must not depend on x86, and this check needs no Arm machine.
//!
//! The standard library for the other architecture comes from the first source that has it: an
//! installed rustup target; Debian's compiler in our cache; rustup, given a few seconds; Debian's
//! archive, unpacked into our cache without changes to the system.

mod archive;
mod debian;
mod rustup;
mod target;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, anyhow};
use clap::ValueEnum;

use crate::check_extent::CheckExtent;
use crate::ci::PartOutcome;
use crate::process;
pub use target::TARGET;

/// Crates with code for an architecture, or that others call through an ABI; their dependencies,
/// all crates with system calls among them, are checked as well. These are checked as one of each
/// kind.
const OF_AN_ARCHITECTURE: [&str; 4] =
    ["nodeward-capi", "nodeward-lab-counts", "nodeward-operands", "nodeward-pager"];

/// Where the standard library may come from.
#[derive(clap::Args)]
pub struct Args {
    #[arg(long, value_enum, default_value_t = StdSource::Auto)]
    source: StdSource,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum StdSource {
    /// The first that works
    Auto,
    /// Only rustup
    Rustup,
    /// Only Debian's compiler
    Debian,
}

/// The compiler to use.
enum Compiler {
    /// The installed one, which has the target.
    Installed,
    /// Another one in its place.
    Other(PathBuf),
}

/// Checks the workspace; a machine that cannot get a standard library is an error here.
pub fn run(args: &Args) -> Result<()> {
    let compiler = match args.source {
        StdSource::Auto => any()?,
        StdSource::Rustup => rustup::fetch().map(|()| Compiler::Installed)?,
        StdSource::Debian => Compiler::Other(debian::fetch()?),
    };
    process::run(&mut check(&compiler))
}

/// Runs the check as a part of `ci`, which starts the command itself; it is skipped if there is no
/// standard library.
pub fn part(run: impl FnOnce(&mut Command) -> Result<()>) -> Result<PartOutcome> {
    match any() {
        Ok(compiler) => run(&mut check(&compiler)).map(|()| PartOutcome::Done),
        Err(why) => Ok(PartOutcome::Skipped(format!("{why:#}"))),
    }
}

/// Returns the compiler that is to be used in place of the installed one; `None` if that has the
/// target.
pub fn compiler() -> Result<Option<PathBuf>> {
    match any()? {
        Compiler::Installed => Ok(None),
        Compiler::Other(rustc) => Ok(Some(rustc)),
    }
}

fn any() -> Result<Compiler> {
    if rustup::is_installed() {
        return Ok(Compiler::Installed);
    }
    if let Some(rustc) = debian::cached()? {
        return Ok(Compiler::Other(rustc));
    }
    let Err(first) = rustup::fetch() else { return Ok(Compiler::Installed) };
    debian::fetch().map(Compiler::Other).map_err(|second| {
        anyhow!("no standard library for {TARGET}; from rustup: {first:#}; from Debian: {second:#}")
    })
}

fn check(compiler: &Compiler) -> Command {
    let mut cargo = process::cargo();
    cargo.args(["check", "--target", TARGET]);
    match CheckExtent::from_environment() {
        CheckExtent::OneOfEach => cargo.args(OF_AN_ARCHITECTURE.map(|name| ["-p", name]).concat()),
        // Not xtask, which runs where nodeward is built.
        CheckExtent::All => cargo.args(["--workspace", "--exclude", "xtask"]),
    };
    // Without the allocators in C that `nodeward bench pool` measures: they need a C compiler for
    // the target.
    cargo.arg("--no-default-features");
    if let Compiler::Other(rustc) = compiler {
        eprintln!("using {}", rustc.display());
        cargo.env("RUSTC", rustc);
    }
    cargo
}
