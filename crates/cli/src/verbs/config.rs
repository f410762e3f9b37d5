//! `nodeward config`: prints settings, and where each of them comes from.

use std::path::Path;

use anyhow::Result;

use crate::args::{ConfigArgs, ConfigVerb, PrintArgs};
use crate::message::exit::Exit;
use crate::output::{config, print};
use crate::settings::SettingsPaths;

/// Carries out its verb.
pub fn run(args: &ConfigArgs, flag: Option<&Path>) -> Result<Exit> {
    match &args.verb {
        ConfigVerb::Print(args) => settings(args, flag),
    }
}

/// Prints settings with their origins.
fn settings(args: &PrintArgs, flag: Option<&Path>) -> Result<Exit> {
    let variables = std::env::vars_os().collect();
    let stack = SettingsPaths::from_environment(flag).read(&args.overrides, &variables)?;
    // Values that are refused on use are refused here, too.
    stack.merged_layer().balance_settings(true)?;
    let said = stack.effective(args.effective);
    print(&match args.output.json {
        true => format!("{}\n", config::json(&said, &stack.files)),
        false => config::text(&said, &stack.files),
    })?;
    Ok(Exit::Done)
}
