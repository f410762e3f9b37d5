//! What a balancer goes on with after it was killed: homes and what holds them, and which process
//! is which.

use std::path::PathBuf;

use nodeward_model::{Name, Pid};
use nodeward_policy::placement::{EntityId, Homes};
use nodeward_records::ledger::LedgerStore;
use nodeward_records::state::StateFile;
use serde::{Deserialize, Serialize};

use super::pins::Pin;

/// The version of the saved state. It is raised whenever the fields of [`SavedState`] or [`Homes`]
/// change; their names are not in the file.
pub const STATE_VERSION: u32 = 5;

/// What is saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedState {
    /// The boot of the machine: numbers of processes mean nothing in another.
    pub boot: String,
    /// The number that the next process gets.
    pub next: u64,
    /// The processes that had a home or pinned threads.
    pub processes: Vec<SavedProcess>,
    /// Their homes.
    pub homes: Homes,
}

/// A process that has a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedProcess {
    /// Its number.
    pub entity: EntityId,
    /// Its pid.
    pub pid: Pid,
    /// When it began, in clock ticks after the boot.
    pub started_ticks: u64,
    /// Its threads that are kept somewhere.
    pub pins: Vec<Pin>,
}

/// Where a balancer writes down what it does.
#[derive(Clone, Debug)]
pub struct Storage {
    /// What it learnt; `None`: nowhere.
    pub state: Option<StateFile>,
    /// What it moved; `None`: nowhere.
    pub ledger: Option<LedgerStore>,
    /// The time, in milliseconds after 1970.
    pub unix_ms: fn() -> u64,
    /// The command that the ledger names.
    pub command: Vec<Name>,
    /// The user was told already that nothing can be written; it is tried all the same.
    pub trouble_told: bool,
}

/// The file of the saved state at a path.
pub fn state_file(path: PathBuf) -> StateFile {
    StateFile::new(path, STATE_VERSION)
}
