//! `cargo xtask lab ...` is `nodeward-lab ...`, built first; `cargo xtask lab compare ...` is
//! `nodeward-compare ...`, built first with the programs that it needs in the guest; `cargo xtask
//! lab shell ...` is `nodeward-lab shell ...` with nodeward and a process to move in the guest,
//! built first; `cargo xtask lab soak` has the balancer work beside processes that come and go, for
//! the time in `SOAK_TIME`; `cargo xtask lab torture` has memory of a pager used by every means,
//! for that in `TORTURE_TIME`.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::script::Profile;
use crate::workspace::Workspace;
use crate::{guest, process};

/// What a shell in a guest has beside the guest's own: nodeward, and something to move.
const TO_TRY: [&str; 2] = ["nodeward", "nodeward-load"];

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
        Some((first, rest)) if first == "shell" => shell(rest),
        Some((first, [])) if first == "soak" => tests("lab_balance", &["churn"]),
        Some((first, [])) if first == "torture" => tests("lab_torture", &[]),
        _ => process::hand_over(program("nodeward-lab").args(&args.words)),
    }
}

fn compare(words: &[OsString]) -> Result<ExitCode> {
    guest::build(Profile::Release)?;
    let dir = guest::dir(&Workspace::load()?, Profile::Release);
    process::hand_over(program("nodeward-compare").args(words).env("NODEWARD_GUEST_DIR", dir))
}

/// Words that ask for help need no programs.
fn shell(words: &[OsString]) -> Result<ExitCode> {
    let mut lab = program("nodeward-lab");
    lab.arg("shell").args(words);
    if !words.iter().any(|word| word == "--help" || word == "-h") {
        guest::build(Profile::Release)?;
        let dir = guest::dir(&Workspace::load()?, Profile::Release);
        for program in TO_TRY {
            lab.arg("--file").arg(dir.join(program));
        }
    }
    process::hand_over(&mut lab)
}

/// Tests that take as long as they are told to, one after the other.
fn tests(program: &str, names: &[&str]) -> Result<ExitCode> {
    guest::build(Profile::Dev)?;
    let mut cargo = process::cargo();
    cargo.args(["test", "--package", "nodeward-trials", "--test", program, "--"]).args(names);
    cargo.args(["--nocapture", "--test-threads=1"]).env("NODEWARD_LAB_REQUIRED", "1");
    let programs = guest::dir(&Workspace::load()?, Profile::Dev);
    process::hand_over(cargo.env("NODEWARD_GUEST_DIR", programs))
}

/// Runs the program of the package of the same name.
fn program(name: &str) -> Command {
    let mut cargo = process::cargo();
    cargo.args(["run", "--quiet", "--release", "-p", name, "--bin", name, "--"]);
    cargo
}
