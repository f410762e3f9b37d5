//! `nodeward config`.

use std::path::Path;

use anyhow::Result;

use crate::args::{ConfigArgs, ConfigVerb, PrintArgs};
use crate::exit::Exit;
use crate::output::{config, print};
use crate::settings::Places;

/// Carries out its verb.
pub fn run(args: &ConfigArgs, flag: Option<&Path>) -> Result<Exit> {
    match &args.verb {
        ConfigVerb::Print(args) => settings(args, flag),
    }
}

/// Prints settings with their origins.
fn settings(args: &PrintArgs, flag: Option<&Path>) -> Result<Exit> {
    let stack = Places::of(flag).read(&args.words, |name| std::env::var_os(name))?;
    // Values that are refused on use are refused here, too.
    stack.layer().balance.decided(true)?;
    let said = stack.effective(args.effective);
    print(&match args.output.json {
        true => format!("{}\n", config::json(&said, &stack.files)),
        false => config::text(&said, &stack.files),
    })?;
    Ok(Exit::Done)
}
