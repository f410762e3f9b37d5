//! The `nodeward` command.

#![forbid(unsafe_code)]

mod args;
mod exit;
mod progress;
mod verbs;

use std::process::ExitCode;

use clap::Parser;
use nodeward_cli::output;

use crate::args::{Cli, Verb};
use crate::exit::Exit;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.verb {
        Verb::Move(args) => verbs::migrate::run(&args),
        Verb::Show(args) => verbs::show::run(&args),
    };
    result.unwrap_or_else(|error| report(&error)).into()
}

fn report(error: &anyhow::Error) -> Exit {
    eprintln!("nodeward: {error:#}");
    Exit::of(error)
}
