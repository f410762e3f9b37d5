//! The `nodeward` command.
//!
//! Its modules are in layers. A module uses only modules of the layers below its own, and no two
//! files use each other, directly or through others.
//!
//! ```text
//! main      chooses the verb and runs it
//! verbs     a verb calls the crates below, prints, and returns an exit code
//! top       the screen of `top`: its state, keys and picture
//! output    formats results as text, JSON and pictures
//! machines  what verbs ask of machines, simulated ones included
//! results   results of verbs, as data
//! args      the command line as it was typed
//! settings, progress, figures
//!           values from files and variables; the progress bar; the figures of SPEC.md
//! stop_signals
//!           Ctrl-C and SIGTERM
//! message   messages, exit codes, the layout of help
//! ```

#![forbid(unsafe_code)]

#[macro_use]
mod message;

mod args;
mod figures;
mod machines;
mod output;
mod progress;
mod results;
mod settings;
mod stop_signals;
mod top;
mod verbs;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};
use nodeward_model::Escape as _;
use signal_hook::consts::SIGPIPE;
use signal_hook::low_level::emulate_default_handler;
use tracing_subscriber::EnvFilter;

use crate::args::{Cli, PlacementVerb, Verb};
use crate::message::exit::Exit;
use crate::message::help;
use crate::message::stdout::OutputError;
use crate::settings::{MoveLayer, MoveSettings, SettingsError, SettingsPaths};
use crate::verbs::{migratepages, numad};

fn main() -> ExitCode {
    log();
    if let Some(exit) = run_by_name() {
        return exit;
    }
    let typed = help::compact(Cli::command()).try_get_matches();
    let done = match typed.and_then(|typed| Cli::from_arg_matches(&typed)) {
        Ok(cli) => {
            args::report_old_options(&cli.verb, std::env::args_os().skip(1));
            run(&cli)
        }
        Err(answer) => print_clap_error(&args::with_escaped_arguments(answer)),
    };
    done.unwrap_or_else(|error| report(&error)).into()
}

/// Prints help, the version, or the error of the command line.
fn print_clap_error(answer: &clap::Error) -> anyhow::Result<Exit> {
    let printed = answer.print();
    if answer.use_stderr() {
        return Ok(Exit::BadInput);
    }
    printed.map_err(OutputError::from)?;
    Ok(Exit::Done)
}

/// Acts as another program if called by its name.
fn run_by_name() -> Option<ExitCode> {
    let in_text = |word: OsString| word.escaped().to_string();
    let mut words = std::env::args_os().map(|word| word.into_string().unwrap_or_else(in_text));
    let program = words.next()?;
    let name = Path::new(&program).file_name()?;
    match name.to_str()? {
        name if migratepages::NAMES.contains(&name) => {
            Some(migratepages::run(&program, &words.collect::<Vec<_>>()))
        }
        numad::NAME => Some(numad::run(&words.collect::<Vec<_>>())),
        _ => None,
    }
}

/// Logs to stderr if $RUST_LOG requests it; otherwise skips even the set-up.
fn log() {
    if std::env::var_os("RUST_LOG").is_some() {
        let format = tracing_subscriber::fmt().with_env_filter(EnvFilter::from_default_env());
        format.with_writer(std::io::stderr).init();
    }
}

fn run(cli: &Cli) -> anyhow::Result<Exit> {
    match &cli.verb {
        Verb::Move(args) if args.file.is_empty() => {
            verbs::move_processes::run(args, &settings(cli, args.run.layer)?)
        }
        Verb::Move(args) => verbs::move_files::run(args, &settings(cli, args.run.layer)?),
        Verb::Spread(args) => verbs::spread::run(args, &settings(cli, args.run.layer)?),
        Verb::Evacuate(args) => verbs::evacuate::run(args, &settings(cli, args.run.layer)?),
        Verb::Placement(args) => match &args.verb {
            PlacementVerb::Save(args) => verbs::placement::save(args),
            PlacementVerb::Restore(args) => {
                verbs::placement::restore(args, &settings(cli, args.run.layer)?)
            }
        },
        Verb::Balance(args) => verbs::balance::run(args, cli.config.as_deref()),
        Verb::Export(args) => verbs::export::run(args),
        Verb::Group(args) => verbs::group::run(args),
        Verb::Run(args) => verbs::run::run(args, cli.config.as_deref()),
        Verb::Config(args) => verbs::config::run(args, cli.config.as_deref()),
        Verb::Undo(args) => verbs::undo::run(args, settings(cli, args.layer)?),
        Verb::Ledger(args) => verbs::ledger::run(args),
        Verb::Show(args) => verbs::show::run(args),
        Verb::Top(args) => verbs::top::run(args, cli.config.as_deref()),
        Verb::Pcp(args) => verbs::pcp::run(args),
        Verb::Watch(args) => verbs::watch::run(args),
        Verb::Report(args) => verbs::report::run(args, cli.config.as_deref()),
        Verb::Capture => verbs::show::capture(),
        Verb::Explain(args) => verbs::explain::run(args, cli.config.as_deref()),
        Verb::Man { directory } => verbs::manual::pages(directory),
        Verb::Completions { shell } => verbs::manual::completions(*shell),
        Verb::Bench(args) => verbs::bench::run(args),
        Verb::Sim(args) => verbs::sim::run(args),
        Verb::Reproduce(args) => verbs::reproduce::run(args),
        Verb::Doctor(args) => verbs::doctor::run(*args),
    }
}

/// Returns the typed settings, over all other sources.
fn settings(cli: &Cli, typed: MoveLayer) -> Result<MoveSettings, SettingsError> {
    let layer = SettingsPaths::from_environment(cli.config.as_deref()).read_layer()?;
    Ok(MoveSettings::resolve(typed.over(layer.moves)))
}

/// Reports an error. A broken pipe ends the program by SIGPIPE, as for all programs, but in order:
/// after the verb has finished its pending work.
fn report(error: &anyhow::Error) -> Exit {
    if error.downcast_ref().is_some_and(OutputError::is_broken_pipe) {
        emulate_default_handler(SIGPIPE).unwrap_or_default();
    }
    say!("nodeward: {error:#}");
    Exit::of(error)
}
