//! The chores of the workspace: `cargo xtask <chore>`. Each chore is one module; nothing here
//! ships.

#![forbid(unsafe_code)]

mod aarch64;
mod bpf;
mod check_extent;
mod ci;
mod guest;
mod header;
mod lab;
mod packages;
mod process;
mod profile;
mod repository;
mod script;
mod setup;
mod spec;
mod tidy;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of the nodeward workspace", version)]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run all checks, or only the parts named
    Ci(ci::Args),
    /// Install what the checks need and this machine lacks (Debian, when allowed to)
    Setup,
    /// Build the static programs that run inside the lab and print their paths
    Guest,
    /// Write include/nodeward.h from crates/capi
    Header,
    /// Compile the programs of crates/bpf that run inside the kernel (needs clang-19, llvm-19)
    Bpf,
    /// Measure the promises of SPEC.md
    Spec(spec::Args),
    /// Run the lab: everything after `lab` goes to nodeward-lab
    Lab(lab::Args),
    /// Build everything and run demo/run
    Demo(script::Args),
    /// Build everything and run bench/run
    Bench(script::Args),
    /// Build the Debian package, below target/package
    Deb(packages::ProgramsArgs),
    /// Build the container image, below target/package
    Image(packages::ProgramsArgs),
    /// Build all files of a release, below target/package
    Release(packages::Args),
    /// Check the style rules and print the figures of the source
    Tidy,
    /// Build the wheels of the package for Python and print their paths
    Wheel,
    /// Type-check the workspace for aarch64
    Aarch64(aarch64::Args),
}

fn main() -> ExitCode {
    match run(Args::parse().chore) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> Result<ExitCode> {
    match chore {
        Chore::Ci(args) => return ci::run(&args),
        Chore::Setup => setup::run(),
        Chore::Guest => guest::run(),
        Chore::Header => header::run(),
        Chore::Bpf => bpf::run(),
        Chore::Spec(args) => return spec::run(&args),
        Chore::Lab(args) => return lab::run(&args),
        Chore::Demo(args) => return script::run("demo/run", &args),
        Chore::Bench(args) => return script::run("bench/run", &args),
        Chore::Deb(args) => packages::build_deb(&args),
        Chore::Image(args) => packages::build_image(&args),
        Chore::Release(args) => packages::build_release(&args),
        Chore::Tidy => tidy::run(),
        Chore::Wheel => packages::build_wheels(),
        Chore::Aarch64(args) => aarch64::run(&args),
    }
    .map(|()| ExitCode::SUCCESS)
}
