//! Sets up nodeward for simulated machines.

use std::path::Path;

use anyhow::Result;
use nodeward_experiments::compare::NodewardSetup;
use nodeward_machine::Machine as _;
use nodeward_scenario::Scenario;
use nodeward_sim::SimMachine;

use crate::machines::{group_homes, kept_empty};
use crate::settings::{ProcessArgs, SettingsPaths};

/// Returns the set-up by defaults, or by `[balance]` of the file that is named, and by no other: a
/// simulation does not depend on the settings of the machine that it runs on.
pub fn nodeward(settings: Option<&Path>) -> Result<NodewardSetup> {
    let Some(path) = settings else { return Ok(NodewardSetup::default()) };
    let layer = SettingsPaths::read_only(path)?;
    let processes = layer.balance.process_filter(&ProcessArgs::default())?;
    Ok(NodewardSetup { settings: layer.balance_settings(true)?, processes })
}

/// Checks the nodes that are to be kept empty, and the homes of groups, against the machine of a
/// scenario.
///
/// # Errors
/// If they are not there, or what is kept empty leaves no node with CPUs or with memory.
pub fn check(setup: &NodewardSetup, scenario: &Scenario) -> Result<()> {
    let NodewardSetup { settings, .. } = setup;
    if settings.keep_empty.is_empty() && settings.groups.is_empty() {
        return Ok(()); // saves the machine, which takes seconds if it is large
    }
    let topology = SimMachine::new(scenario, 0).topology()?;
    group_homes::check(&topology, &settings.groups)?;
    kept_empty::check(&topology, &settings.keep_empty)
}
