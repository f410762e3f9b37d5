//! The files that a balancer leaves for the next one: its saved state, its ledgers, notes of
//! nudges, the record of what it switched off, and the lock that keeps a second one away.

use std::path::Path;

use anyhow::{Context as _, Result};
use nodeward_balancer::{SavedState, Storage, read_state, takeover_file};
use nodeward_linux::Linux;
use nodeward_model::{Escape as _, Name};
use nodeward_records::state::{InstanceLock, StateError, StateFile};

use crate::machines::SelectedMachine;
use crate::settings::state_dir;

/// State that outlives the command, and the lock against a second balancer.
#[derive(Default)]
pub struct PersistentState {
    /// The state that an earlier balancer saved.
    pub saved: Option<SavedState>,
    /// The files to which this balancer saves.
    pub storage: Option<Storage>,
    /// The record of a takeover of the kernel's balancing; `None` without the lock.
    pub takeover: Option<StateFile>,
    /// The lock, to be dropped last.
    pub lock: Option<InstanceLock>,
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
    pub fn open(chosen: &SelectedMachine) -> Result<Self> {
        let dir = state_dir::dir()?;
        let lock = LockResult::take(&dir)?;
        let has_no_place = matches!(lock, LockResult::NoDirectory);
        if let SelectedMachine::Local(machine) = chosen
            && !has_no_place
        {
            open_nudge_journal(machine, &dir.join("balance.notes"));
        }
        let file = nodeward_balancer::state_file(dir.join("balance.state"));
        let saved = read_state(&file).unwrap_or_else(|error| {
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
        let record = takeover_file(dir.join("balance.takeover"));
        let takeover = lock.is_some().then_some(record);
        Ok(Self { saved, storage: Some(storage), takeover, lock })
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
