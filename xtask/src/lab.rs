//! `cargo xtask lab ...` is `nodeward-lab ...`, built first; `cargo xtask lab compare ...` is
//! `nodeward-compare ...`, built first with the programs that it needs in the guest; `cargo xtask
//! lab soak` has the balancer work beside processes that come and go, for the time in `SOAK_TIME`.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::workspace::Workspace;
use crate::{guest, process};

/// What `nodeward-lab` is to be told.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Builds the command and hands everything over to it.
pub fn run(args: &Args) -> Result<ExitCode> {
    match args.words.split_first() {
        Some((first, rest)) if first == "compare" => compare(rest),
        Some((first, [])) if first == "soak" => soak(),
        _ => process::hand_over(program("nodeward-lab").args(&args.words)),
    }
}

fn compare(words: &[OsString]) -> Result<ExitCode> {
    guest::build()?;
    let dir = guest::dir(&Workspace::load()?);
    process::hand_over(program("nodeward-compare").args(words).env("NODEWARD_GUEST_DIR", dir))
}

/// The one of the balancer's tests that takes as long as it is told to.
fn soak() -> Result<ExitCode> {
    guest::build()?;
    let mut cargo = process::cargo();
    cargo.args(["test", "--package", "nodeward-trials", "--test", "lab_balance", "--"]);
    cargo.args(["churn", "--nocapture"]).env("NODEWARD_LAB_REQUIRED", "1");
    process::hand_over(cargo.env("NODEWARD_GUEST_DIR", guest::dir(&Workspace::load()?)))
}

/// Runs the program of the package of the same name.
fn program(name: &str) -> Command {
    let mut cargo = process::cargo();
    cargo.args(["run", "--quiet", "--release", "-p", name, "--bin", name, "--"]);
    cargo
}
