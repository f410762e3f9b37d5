//! `cargo xtask lab ...` is `nodeward-lab ...`, built first.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;

use crate::process;

/// What `nodeward-lab` is to be told.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Builds the lab's command and hands everything over to it.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut cargo = process::cargo();
    cargo.args([
        "run",
        "--quiet",
        "--release",
        "-p",
        "nodeward-lab",
        "--bin",
        "nodeward-lab",
        "--",
    ]);
    process::hand_over(cargo.args(&args.words))
}
