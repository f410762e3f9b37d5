//! `nodeward balance`: one round that is shown, or rounds until it is told to stop.

mod daemon;
mod once;
mod samples;
mod signals;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use nodeward_engine::Live;
use nodeward_engine::balance::{self, BalanceSettings, Balancer, RoundReport, SavedState, Storage};
use nodeward_linux::Linux;
use nodeward_machine::Machine;
use nodeward_model::{Escape as _, Name, Wanted};
use nodeward_wire::state::{Error, OnlyOne};

use crate::args::BalanceArgs;
use crate::exit::Exit;
use crate::groups;
use crate::machine::Chosen;
use crate::output;
use crate::settings::Places;
use crate::state;

use daemon::Daemon;
use once::Once;
use signals::Signals;

/// Default time to balance a simulated machine, in virtual nanoseconds.
const SIMULATED_NS: u64 = 10_000_000_000;

/// Balances.
pub fn run(args: &BalanceArgs, flag: Option<&Path>) -> Result<Exit> {
    let asked = Asked { args, places: Places::of(flag) };
    let (wanted, settings) = asked.read()?;
    let mut chosen = Chosen::open(&args.on, args.seed)?;
    if let (Some(path), Chosen::Here(machine)) = (&args.samples, &mut chosen) {
        samples::listen(path, machine.listen())?;
    }
    check(chosen.machine(), &wanted, &settings)?;
    let simulated = matches!(chosen, Chosen::Simulated(_));
    let live = Arc::new(Live::default());
    let signals = Signals::catch(&live)?;
    // The state of a simulated machine is not saved, because the machine does not outlive this
    // command.
    let kept = (!simulated && !args.dry_run).then(|| Kept::open(&chosen)).transpose()?;
    let machine = chosen.shared();
    let (saved, storage, _lock) = kept.map_or((None, None, None), Kept::parts);
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
fn check(machine: &dyn Machine, wanted: &Wanted, settings: &BalanceSettings) -> Result<()> {
    groups::check(machine, &wanted.cgroups)?;
    groups::check(machine, &settings.except.cgroups)
}

/// The arguments, and the places of the settings files.
struct Asked<'a> {
    args: &'a BalanceArgs,
    places: Places,
}

impl Asked<'_> {
    /// Reads the settings, also repeatedly.
    fn read(&self) -> Result<(Wanted, BalanceSettings)> {
        let layer = self.args.how.clone().over(self.places.layer()?.balance);
        Ok((layer.wanted(&self.args.named)?, layer.decided(!self.args.dry_run)?))
    }

    /// Prints a round: as JSON, or as a table for people.
    fn show(&self, report: &RoundReport) -> Result<()> {
        let text = match self.args.json {
            true => format!("{}\n", output::balance::json(report)),
            false => output::balance::table(report),
        };
        if self.args.dry_run { output::print(&text) } else { output::print_done(&text) }
    }

    /// Prints new notices on standard error.
    fn tell_news(&self, report: &RoundReport) {
        if report.news.is_empty() {
            return;
        }
        let acts = self.read().is_ok_and(|(_, settings)| {
            settings.act && settings.rivals == balance::OnRivals::Ignore
        });
        for line in output::balance::news::lines(&report.news, acts) {
            say!("nodeward: {line}");
        }
    }
}

/// State that outlives the command, and the lock against a second balancer.
struct Kept {
    saved: Option<SavedState>,
    storage: Storage,
    lock: Option<OnlyOne>,
}

/// The result of taking the lock of the state directory, if no other process has it.
enum Lock {
    Taken(OnlyOne),
    /// The lock cannot be taken, but the directory exists.
    Missing,
    /// Nothing can be written there at all.
    NoPlace,
}

impl Lock {
    /// Takes the lock. An error is reported with all its consequences.
    fn take(dir: &Path) -> Result<Self> {
        let error = match OnlyOne::take(&dir.join("balance.lock")) {
            Ok(lock) => return Ok(Self::Taken(lock)),
            Err(error @ Error::Locked { .. }) => {
                return Err(error).context("a balancer runs already");
            }
            Err(error) => error,
        };
        let (lock, so) = match error {
            Error::Directory { .. } => {
                (Self::NoPlace, "no move is in a ledger, after a kill it begins anew, and a second")
            }
            _ => (Self::Missing, "a second"),
        };
        let told = anyhow::Error::new(error);
        say!("nodeward: {so} balancer would not be noticed: {told:#}");
        Ok(lock)
    }
}

impl Kept {
    /// Opens the state. If it cannot be written, that is reported and balancing goes on.
    fn open(chosen: &Chosen) -> Result<Self> {
        let dir = state::dir()?;
        let lock = Lock::take(&dir)?;
        let has_no_place = matches!(lock, Lock::NoPlace);
        if let Chosen::Here(machine) = chosen
            && !has_no_place
        {
            keep_notes(machine, &dir.join("balance.notes"));
        }
        let file = balance::state_file(dir.join("balance.state"));
        let saved = file.read().unwrap_or_else(|error| {
            if !has_no_place {
                say!("nodeward: the balancer begins anew: {:#}", anyhow::Error::new(error));
            }
            None
        });
        let storage = Storage {
            state: Some(file),
            ledger: Some(state::ledgers()?),
            unix_ms: state::now_unix_ms,
            command: std::env::args_os().map(Name::from).collect(),
            trouble_told: has_no_place,
        };
        let lock = match lock {
            Lock::Taken(lock) => Some(lock),
            Lock::Missing | Lock::NoPlace => None,
        };
        Ok(Self { saved, storage, lock })
    }

    /// Splits it into parts, which are needed in different places.
    fn parts(self) -> (Option<SavedState>, Option<Storage>, Option<OnlyOne>) {
        (self.saved, Some(self.storage), self.lock)
    }
}

/// Undoes a nudge that was interrupted when a balancer was killed, and prepares for the next time.
fn keep_notes(machine: &Linux, path: &Path) {
    match machine.keep_notes(path) {
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
