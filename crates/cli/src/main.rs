//! The `nodeward` command.

#![forbid(unsafe_code)]

mod args;
mod exit;
mod output;
mod progress;
mod settings;
mod verbs;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Verb};
use crate::exit::Exit;
use crate::settings::Places;

fn main() -> ExitCode {
    let cli = Cli::parse();
    run(&cli).unwrap_or_else(|error| report(&error)).into()
}

fn run(cli: &Cli) -> anyhow::Result<Exit> {
    match &cli.verb {
        Verb::Move(args) => {
            let places = Places::find(cli.config.as_deref(), |name| std::env::var_os(name));
            verbs::migrate::run(args, &places.read(args.how)?)
        }
        Verb::Show(args) => verbs::show::run(args),
        Verb::Doctor(args) => verbs::doctor::run(*args, &mut std::io::stdout().lock()),
    }
}

fn report(error: &anyhow::Error) -> Exit {
    eprintln!("nodeward: {error:#}");
    Exit::of(error)
}
