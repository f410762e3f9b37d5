//! Arguments of `config`.

use clap::{Args, Subcommand};

use super::output::OutputArgs;
use super::parsers::parse_override;

/// What `config` is told.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: ConfigVerb,
}

/// What to do with settings.
#[derive(Debug, Subcommand)]
pub enum ConfigVerb {
    /// Print what is set, and who set it: the text is a settings file again.
    ///
    /// A setting is what was typed; else its variable, such as NODEWARD_BALANCE_INTERVAL; else what
    /// the user's file says, else the system's file, else the default.
    Print(PrintArgs),
}

/// What `config print` is told.
#[derive(Debug, Args)]
pub struct PrintArgs {
    /// As if this was typed, such as balance.interval=2s
    #[arg(value_name = "KEY=VALUE", value_parser = parse_override)]
    pub overrides: Vec<(String, String)>,
    /// Print every setting, those that nobody set with their defaults
    #[arg(long)]
    pub effective: bool,
    /// How to print them.
    #[command(flatten)]
    pub output: OutputArgs,
}
