//! The `nodeward` command.

#![forbid(unsafe_code)]

mod args;
mod exit;
mod nodes;
mod output;
mod progress;
mod settings;
mod verbs;

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use crate::args::{Cli, Verb};
use crate::exit::Exit;
use crate::settings::Places;

fn main() -> ExitCode {
    let cli = Cli::parse();
    log();
    run(&cli).unwrap_or_else(|error| report(&error)).into()
}

/// Logs to stderr if $RUST_LOG asks for it; otherwise even the set-up is spared.
fn log() {
    if std::env::var_os("RUST_LOG").is_some() {
        let format = tracing_subscriber::fmt().with_env_filter(EnvFilter::from_default_env());
        format.with_writer(std::io::stderr).init();
    }
}

fn run(cli: &Cli) -> anyhow::Result<Exit> {
    match &cli.verb {
        Verb::Move(args) => {
            let places = Places::find(cli.config.as_deref(), |name| std::env::var_os(name));
            verbs::migrate::run(args, &places.read(args.how)?)
        }
        Verb::Show(args) => verbs::show::run(args),
        Verb::Capture => verbs::show::capture(),
        Verb::Explain(args) => verbs::manual::explain(args),
        Verb::Man { directory } => verbs::manual::pages(directory),
        Verb::Completions { shell } => verbs::manual::completions(*shell),
        Verb::Doctor(args) => verbs::doctor::run(*args, &mut std::io::stdout().lock()),
    }
}

fn report(error: &anyhow::Error) -> Exit {
    eprintln!("nodeward: {error:#}");
    Exit::of(error)
}
