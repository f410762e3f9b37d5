//! Arguments of `config`.

use clap::{Args, Subcommand};

use super::output::OutputArgs;
use super::parsers::parse_override;

/// Arguments of `config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: ConfigVerb,
}

/// What to do with settings.
#[derive(Debug, Subcommand)]
pub enum ConfigVerb {
    /// Print the settings and the source of each; the output is a valid settings file.
    ///
    /// A setting comes from the first of these sources that has it: the command line, its
    /// environment variable (such as NODEWARD_BALANCE_INTERVAL), the user's file, the system's
    /// file, the default.
    Print(PrintArgs),
}

/// Arguments of `config print`.
#[derive(Debug, Args)]
pub struct PrintArgs {
    /// Print what would hold with this on the command line, such as balance.interval=2s
    #[arg(value_name = "KEY=VALUE", value_parser = parse_override)]
    pub overrides: Vec<(String, String)>,
    /// Print all settings, also those that have their default
    #[arg(long)]
    pub effective: bool,
    /// How to print them.
    #[command(flatten)]
    pub output: OutputArgs,
}
