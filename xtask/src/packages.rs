//! What people install: the Debian package, the container image, the wheels for Python, and all
//! files of a release.
//!
//! All but the wheels are made of one set of programs, so what is tested of one holds for the
//! others.
//! Names, order, owners, modes and times of what they contain come from the sources alone: built in
//! two directories, they are equal.

mod archive;
mod checkout;
mod checksum;
mod deb;
mod image;
mod programs;
mod release;
mod sbom;
#[cfg(test)]
mod tests;
mod tools;
mod twice;
mod wheel;

use std::fs;

use anyhow::{Context, Result};

use checkout::Checkout;
pub use programs::ProgramsArgs;

use crate::workspace::Workspace;

/// How to make the files of a release.
#[derive(clap::Args)]
pub struct Args {
    /// Make all files twice, of copies of the last commit in two directories, and print how many
    /// differ, as a figure of SPEC.md. With --programs: all but the Debian package and the wheels
    #[arg(long)]
    twice: bool,
    #[command(flatten)]
    programs: ProgramsArgs,
}

/// Builds the Debian package and prints its path.
pub fn build_deb(args: &ProgramsArgs) -> Result<()> {
    let checkout = Checkout::here()?;
    println!("{}", deb::build(&checkout, &args.of(&checkout)?)?.display());
    Ok(())
}

/// Builds the container image and prints the path of its layout.
pub fn build_image(args: &ProgramsArgs) -> Result<()> {
    let checkout = Checkout::here()?;
    println!("{}", image::build(&checkout, &args.of(&checkout)?)?.display());
    Ok(())
}

/// Builds the wheels for Python and prints their paths.
pub fn build_wheels() -> Result<()> {
    let checkout = Checkout::here()?;
    let out = Workspace::load()?.target_directory.join("wheels");
    // Wheels of other versions.
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("clearing {}", out.display()))?;
    }
    let built = wheel::build_all(&checkout, &out);
    for file in fs::read_dir(&out).into_iter().flatten().flatten() {
        println!("{}", file.path().display());
    }
    built
}

/// Builds all files of a release and prints their directory, or compares two builds.
pub fn build_release(args: &Args) -> Result<()> {
    let checkout = Checkout::here()?;
    if args.twice {
        return twice::run(&checkout, &args.programs);
    }
    println!("{}", release::build(&checkout, &args.programs.of(&checkout)?)?.display());
    Ok(())
}
