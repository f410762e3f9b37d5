//! The lab's command: parses arguments, carries out the verb, ends with its exit code.

#![forbid(unsafe_code)]

mod args;
mod tables;
mod verbs;

use std::process::ExitCode;

use clap::Parser;

/// Exit code if the lab itself failed; the command in the guest may not have run.
const LAB_FAILED: u8 = 125;

fn main() -> ExitCode {
    match verbs::run_verb(args::Args::parse()) {
        Ok(code) => ExitCode::from(code),
        Err(why) => {
            eprintln!("nodeward-lab: {why:#}");
            ExitCode::from(LAB_FAILED)
        }
    }
}
