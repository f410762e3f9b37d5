//! Sets up nodeward for simulated machines.

use std::path::Path;

use anyhow::Result;
use nodeward_experiments::compare::NodewardSetup;

use crate::settings::{ProcessArgs, SettingsPaths};

/// Returns the set-up by defaults, or by `[balance]` of the file that is named, and by no other: a
/// simulation does not depend on the settings of the machine that it runs on.
pub fn nodeward(settings: Option<&Path>) -> Result<NodewardSetup> {
    let Some(path) = settings else { return Ok(NodewardSetup::default()) };
    let layer = SettingsPaths::read_only(path)?;
    let processes = layer.balance.process_filter(&ProcessArgs::default())?;
    Ok(NodewardSetup { settings: layer.balance_settings(true)?, processes })
}
