//! Runs the lab's commands, built first.
//!
//! - `cargo xtask lab ...` is `nodeward-lab ...`.
//! - `cargo xtask lab compare ...` is `nodeward-compare ...`, with its guest programs.
//! - `cargo xtask lab truth ...` is the same beside the simulator, as the page docs/truth.md.
//! - `cargo xtask lab shell ...` is `nodeward-lab shell ...` with nodeward and a process to move in
//!   the guest.
//! - `cargo xtask lab soak` runs the balancer beside processes that come and go, for the time in
//!   `SOAK_TIME`.
//! - `cargo xtask lab torture` uses memory of a pager by every means, for the time in
//!   `TORTURE_TIME`.

use std::ffi::OsString;
use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::profile::Profile;
use crate::workspace::Workspace;
use crate::{guest, process};

/// Programs that a shell in a guest has beside the guest's own: nodeward, and a process to move.
const SHELL_PROGRAMS: [&str; 2] = ["nodeward", "nodeward-load"];

/// What `nodeward-lab` is to be told.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Builds the command and runs it with all arguments.
pub fn run(args: &Args) -> Result<ExitCode> {
    match args.words.split_first() {
        Some((first, rest)) if first == "compare" => compare(rest),
        Some((first, rest)) if first == "truth" => truth(rest),
        Some((first, rest)) if first == "shell" => shell(rest),
        Some((first, [])) if first == "soak" => tests("lab_balance", &["churn"]),
        Some((first, [])) if first == "torture" => tests("lab_torture", &[]),
        _ => process::run_for_exit_code(program("nodeward-lab").args(&args.words)),
    }
}

fn compare(words: &[OsString]) -> Result<ExitCode> {
    guest::build(Profile::Release)?;
    let mut compare = program("nodeward-compare");
    guest::set_environment(&mut compare, &Workspace::load()?, Profile::Release);
    process::run_for_exit_code(compare.args(words))
}

/// Writes the page that shows simulator and lab side by side.
fn truth(words: &[OsString]) -> Result<ExitCode> {
    let page = ["--balancers", "nothing,kernel,hand,nodeward", "--truth", "docs/truth.md"];
    let words = words.iter().cloned().chain(page.map(OsString::from)).collect::<Vec<_>>();
    compare(&words)
}

/// Runs the shell; a request for help needs no guest programs.
fn shell(words: &[OsString]) -> Result<ExitCode> {
    let mut lab = program("nodeward-lab");
    lab.arg("shell").args(words);
    if !words.iter().any(|word| word == "--help" || word == "-h") {
        guest::build(Profile::Release)?;
        let workspace = Workspace::load()?;
        guest::set_environment(&mut lab, &workspace, Profile::Release);
        let dir = guest::dir(&workspace, Profile::Release);
        for program in SHELL_PROGRAMS {
            lab.arg("--file").arg(dir.join(program));
        }
    }
    process::run_for_exit_code(&mut lab)
}

/// Runs tests of configurable duration, one after the other.
fn tests(program: &str, names: &[&str]) -> Result<ExitCode> {
    guest::build(Profile::Dev)?;
    let mut cargo = process::cargo();
    cargo.args(["test", "--package", "nodeward-cases", "--test", program, "--"]).args(names);
    cargo.args(["--nocapture", "--test-threads=1"]).env("NODEWARD_LAB_REQUIRED", "1");
    guest::set_environment(&mut cargo, &Workspace::load()?, Profile::Dev);
    process::run_for_exit_code(&mut cargo)
}

/// Returns a command that runs the program of the package of the same name.
fn program(name: &str) -> Command {
    let mut cargo = process::cargo();
    cargo.args(["run", "--quiet", "--release", "-p", name, "--bin", name, "--"]);
    cargo
}
