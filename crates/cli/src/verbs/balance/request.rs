//! The arguments of `balance`, and how the command reports what the balancer did.

use std::path::{Path, PathBuf};

use anyhow::Result;
use nodeward_balancer::{BalanceSettings, RoundReport};
use nodeward_linux::process_lookup;
use nodeward_machine::{Error, Machine};
use nodeward_model::{Name, Pid, ProcessFilter};

use crate::args::BalanceArgs;
use crate::machines::{cgroups, group_homes, kept_empty};
use crate::output;
use crate::settings::{
    AgentSettings, PageListsChoice, SchedulerChoice, SettingsLayer, SettingsPaths,
};

/// Checks what only the machine itself can tell.
pub fn check(
    machine: &dyn Machine,
    wanted: &ProcessFilter,
    settings: &BalanceSettings,
) -> Result<()> {
    cgroups::check(machine, &wanted.cgroups)?;
    cgroups::check(machine, &settings.except.cgroups)?;
    let topology = machine.topology()?;
    group_homes::check(&topology, &settings.groups)?;
    kept_empty::check(&topology, &settings.keep_empty)
}

/// Checks that the processes exist that are named by pid.
pub fn check_pids(machine: &dyn Machine, pids: &[Pid]) -> Result<(), Error> {
    let mut errors = pids.iter().filter_map(|&pid| machine.open_process(pid).err());
    // One that may not be held now may be balanced later.
    errors.find(Error::is_gone).map_or(Ok(()), Err)
}

/// Reports typed names that no running process has: they may be misspelled.
pub fn report_absent(names: &[Name]) -> Result<()> {
    for name in names {
        if process_lookup::by_name(Path::new("/"), name)?.is_empty() {
            say!("nodeward: no process is called '{name}' now; it is balanced once it is there");
        }
    }
    Ok(())
}

/// The arguments, and the places of the settings files.
pub struct BalanceRequest<'a> {
    /// The arguments.
    pub args: &'a BalanceArgs,
    /// The places of the settings files.
    pub places: SettingsPaths,
}

impl BalanceRequest<'_> {
    /// Reads the settings, also repeatedly.
    pub fn read(&self) -> Result<(ProcessFilter, BalanceSettings)> {
        let layer = self.read_layer()?;
        let wanted = layer.balance.process_filter(&self.args.processes)?;
        Ok((wanted, layer.balance_settings(!self.args.dry_run)?))
    }

    /// Reads what is there for others: the settings of the agent, and the path of the textfile.
    pub fn read_for_others(&self) -> Result<(AgentSettings, Option<PathBuf>)> {
        let layer = self.read_layer()?.balance;
        let agent = AgentSettings::resolve(&layer)?;
        Ok((agent, layer.textfile.unwrap_or_default().0))
    }

    /// Reads what brings threads home, and whether page lists are tuned.
    pub fn read_kernel_choices(&self) -> Result<(SchedulerChoice, PageListsChoice)> {
        let layer = self.read_layer()?.balance;
        Ok((layer.scheduler.unwrap_or_default(), layer.page_lists.unwrap_or_default()))
    }

    /// Reads the settings below what was typed, and lays that over them.
    fn read_layer(&self) -> Result<SettingsLayer> {
        let mut layer = self.places.read_layer()?;
        layer.balance = self.args.layer.clone().over(layer.balance);
        Ok(layer)
    }

    /// Prints a round: as JSON, or as a table for people.
    pub fn show(&self, report: &RoundReport) -> Result<()> {
        let text = match self.args.json {
            true => format!("{}\n", output::balance::json(report)),
            false => output::balance::table(report),
        };
        if self.args.dry_run { output::print(&text) } else { output::print_outcome(&text) }
    }

    /// Prints new notices on standard error.
    pub fn print_notices(&self, report: &RoundReport) {
        if report.news.is_empty() {
            return;
        }
        for line in output::balance::notices::lines(&report.news, report.rival_mode) {
            say!("nodeward: {line}");
        }
    }
}
