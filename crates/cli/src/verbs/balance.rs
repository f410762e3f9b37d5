//! `nodeward balance`: one round that is shown, or rounds until it is told to stop.

mod daemon;
mod once;
mod samples;
mod signals;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use nodeward_balancer::{BalanceSettings, Balancer, RoundReport, SavedState, Storage};
use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_model::{Escape as _, Name, ProcessFilter};
use nodeward_mover::MoveControl;
use nodeward_records::state::{InstanceLock, StateError};

use crate::args::BalanceArgs;
use crate::cgroups;
use crate::exit::Exit;
use crate::machine::SelectedMachine;
use crate::output;
use crate::settings::SettingsPaths;
use crate::state_dir;

use daemon::Daemon;
use once::Once;
use signals::SignalFlags;

/// Default time to balance a simulated machine, in virtual nanoseconds.
const SIMULATED_NS: u64 = 10_000_000_000;

/// Balances.
pub fn run(args: &BalanceArgs, flag: Option<&Path>) -> Result<Exit> {
    let asked = BalanceRequest { args, places: SettingsPaths::from_environment(flag) };
    let (wanted, settings) = asked.read()?;
    let mut chosen = SelectedMachine::open(&args.machine_args, args.seed)?;
    if let (Some(path), SelectedMachine::Local(machine)) = (&args.samples, &mut chosen) {
        samples::start_reader(path, machine.access_queue())?;
    }
    check(chosen.machine(), &wanted, &settings)?;
    let simulated = matches!(chosen, SelectedMachine::Simulated(_));
    let live = Arc::new(MoveControl::default());
    let signals = SignalFlags::install(&live)?;
    // The state of a simulated machine is not saved, because the machine does not outlive this
    // command.
    let kept = (!simulated && !args.dry_run).then(|| PersistentState::open(&chosen)).transpose()?;
    let machine = chosen.into_shared();
    let (saved, storage, _lock) = kept.map_or((None, None, None), PersistentState::into_parts);
    let mut balancer = Balancer::new(Arc::clone(&machine), &wanted, settings, saved)?;
    if let Some(storage) = storage {
        balancer.write_to(storage);
    }
    if (args.once || args.dry_run) && args.for_ns.is_none() {
        return Once::new(&asked, &live).run(&mut balancer);
    }
    let for_ns = args.for_ns.or_else(|| simulated.then_some(SIMULATED_NS));
    Daemon::new(&asked, &machine, &signals, for_ns).run(&mut balancer, &live)
}

/// Checks what only the machine itself can tell.
fn check(machine: &dyn Machine, wanted: &ProcessFilter, settings: &BalanceSettings) -> Result<()> {
    cgroups::check(machine, &wanted.cgroups)?;
    cgroups::check(machine, &settings.except.cgroups)
}

/// The arguments, and the places of the settings files.
struct BalanceRequest<'a> {
    args: &'a BalanceArgs,
    places: SettingsPaths,
}

impl BalanceRequest<'_> {
    /// Reads the settings, also repeatedly.
    fn read(&self) -> Result<(ProcessFilter, BalanceSettings)> {
        let layer = self.args.layer.clone().over(self.places.read_layer()?.balance);
        Ok((layer.process_filter(&self.args.processes)?, layer.resolve(!self.args.dry_run)?))
    }

    /// Prints a round: as JSON, or as a table for people.
    fn show(&self, report: &RoundReport) -> Result<()> {
        let text = match self.args.json {
            true => format!("{}\n", output::balance::json(report)),
            false => output::balance::table(report),
        };
        if self.args.dry_run { output::print(&text) } else { output::print_outcome(&text) }
    }

    /// Prints new notices on standard error.
    fn print_notices(&self, report: &RoundReport) {
        if report.news.is_empty() {
            return;
        }
        let acts = self.read().is_ok_and(|(_, settings)| {
            settings.act && settings.rivals == nodeward_balancer::OnRivals::Ignore
        });
        for line in output::balance::notices::lines(&report.news, acts) {
            say!("nodeward: {line}");
        }
    }
}

/// State that outlives the command, and the lock against a second balancer.
struct PersistentState {
    saved: Option<SavedState>,
    storage: Storage,
    lock: Option<InstanceLock>,
}

/// The result of taking the lock of the state directory, if no other process has it.
enum LockResult {
    Taken(InstanceLock),
    /// The lock cannot be taken, but the directory exists.
    Unusable,
    /// Nothing can be written there at all.
    NoDirectory,
}

impl LockResult {
    /// Takes the lock. An error is reported with all its consequences.
    fn take(dir: &Path) -> Result<Self> {
        let error = match InstanceLock::acquire(&dir.join("balance.lock")) {
            Ok(lock) => return Ok(Self::Taken(lock)),
            Err(error @ StateError::Locked { .. }) => {
                return Err(error).context("a balancer runs already");
            }
            Err(error) => error,
        };
        let (lock, so) = match error {
            StateError::Directory { .. } => (
                Self::NoDirectory,
                "no move is in a ledger, after a kill it begins anew, and a second",
            ),
            _ => (Self::Unusable, "a second"),
        };
        let told = anyhow::Error::new(error);
        say!("nodeward: {so} balancer would not be noticed: {told:#}");
        Ok(lock)
    }
}

impl PersistentState {
    /// Opens the state. If it cannot be written, that is reported and balancing goes on.
    fn open(chosen: &SelectedMachine) -> Result<Self> {
        let dir = state_dir::dir()?;
        let lock = LockResult::take(&dir)?;
        let has_no_place = matches!(lock, LockResult::NoDirectory);
        if let SelectedMachine::Local(machine) = chosen
            && !has_no_place
        {
            open_nudge_journal(machine, &dir.join("balance.notes"));
        }
        let file = nodeward_balancer::state_file(dir.join("balance.state"));
        let saved = file.read().unwrap_or_else(|error| {
            if !has_no_place {
                say!("nodeward: the balancer begins anew: {:#}", anyhow::Error::new(error));
            }
            None
        });
        let storage = Storage {
            state: Some(file),
            ledger: Some(state_dir::ledgers()?),
            unix_ms: state_dir::now_unix_ms,
            command: std::env::args_os().map(Name::from).collect(),
            trouble_told: has_no_place,
        };
        let lock = match lock {
            LockResult::Taken(lock) => Some(lock),
            LockResult::Unusable | LockResult::NoDirectory => None,
        };
        Ok(Self { saved, storage, lock })
    }

    /// Splits it into parts, which are needed in different places.
    fn into_parts(self) -> (Option<SavedState>, Option<Storage>, Option<InstanceLock>) {
        (self.saved, Some(self.storage), self.lock)
    }
}

/// Undoes a nudge that was interrupted when a balancer was killed, and prepares for the next time.
fn open_nudge_journal(machine: &Linux, path: &Path) {
    match machine.open_nudge_journal(path) {
        Ok(None) => {}
        Ok(Some(undone)) => say!(
            "nodeward: thread {} of process {} was left with too few CPUs when a balancer was \
             killed; it has them back",
            undone.tid,
            undone.pid
        ),
        Err(error) => say!(
            "nodeward: if this balancer is killed, a thread may be left with too few CPUs, as {} \
             cannot be used; remove it, or choose another directory by NODEWARD_STATE_DIR: {error}",
            path.escaped()
        ),
    }
}
