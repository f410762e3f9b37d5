//! Sets up nodeward for simulated machines.

use std::path::Path;

use anyhow::Result;
use nodeward_experiments::compare::NodewardSetup;
use nodeward_machine::Machine as _;
use nodeward_scenario::Scenario;
use nodeward_sim::SimMachine;

use crate::machines::kept_empty;
use crate::settings::{ProcessArgs, SettingsPaths};

/// Returns the set-up by defaults, or by `[balance]` of the file that is named, and by no other: a
/// simulation does not depend on the settings of the machine that it runs on.
pub fn nodeward(settings: Option<&Path>) -> Result<NodewardSetup> {
    let Some(path) = settings else { return Ok(NodewardSetup::default()) };
    let layer = SettingsPaths::read_only(path)?;
    let processes = layer.balance.process_filter(&ProcessArgs::default())?;
    Ok(NodewardSetup { settings: layer.balance_settings(true)?, processes })
}

/// Checks the nodes that are to be kept empty against the machine of a scenario.
///
/// # Errors
/// If they are not there, or leave no node with CPUs or with memory.
pub fn check(setup: &NodewardSetup, scenario: &Scenario) -> Result<()> {
    let kept = &setup.settings.keep_empty;
    if kept.is_empty() {
        return Ok(()); // saves the machine, which takes seconds if it is large
    }
    kept_empty::check(&SimMachine::new(scenario, 0).topology()?, kept)
}
