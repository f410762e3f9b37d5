//! What people install: the Debian package, the container image, and all files of a release.
//!
//! All of them are made of one set of programs, so what is tested of one holds for the others.
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

use anyhow::Result;

use checkout::Checkout;
pub use programs::ProgramsArgs;

/// How to make the files of a release.
#[derive(clap::Args)]
pub struct Args {
    /// Make all files twice, of copies of the last commit in two directories, and print how many
    /// differ, as a figure of SPEC.md. With --programs: all but the Debian package
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

/// Builds all files of a release and prints their directory, or compares two builds.
pub fn build_release(args: &Args) -> Result<()> {
    let checkout = Checkout::here()?;
    if args.twice {
        return twice::run(&checkout, &args.programs);
    }
    println!("{}", release::build(&checkout, &args.programs.of(&checkout)?)?.display());
    Ok(())
}
