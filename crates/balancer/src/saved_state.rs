//! The state from which a balancer continues after it was killed: homes with their holds, and the
//! number of each process.

use std::collections::BTreeMap;
use std::path::PathBuf;

use nodeward_model::{Name, Pid};
use nodeward_policy::placement::{EntityId, Homes};
use nodeward_records::ledger::LedgerStore;
use nodeward_records::state::{StateError, StateFile};
use serde::{Deserialize, Serialize};

use super::called_groups::CalledGroups;
use super::group_change::GroupChange;
use super::group_key::GroupKey;
use super::pins::Pin;

/// The version of the saved state. It is raised whenever the fields of [`SavedState`] or [`Homes`]
/// change, or those of [`GroupChange`]; their names are not in the file.
pub const STATE_VERSION: u32 = 12;

/// The state that a balancer saves, so that a later one continues.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedState {
    /// The boot id of the machine. Keys of processes are valid only within one boot.
    pub boot: String,
    /// The number that the next process gets.
    pub next: u64,
    /// The processes that had a home or pinned threads.
    pub processes: Vec<SavedProcess>,
    /// The homes of the processes and groups.
    pub homes: Homes,
    /// The numbers of groups.
    pub groups: BTreeMap<GroupKey, EntityId>,
    /// The groups that programs made by calls.
    pub called: CalledGroups,
}

/// A process with its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedProcess {
    /// The number of the process.
    pub entity: EntityId,
    /// The pid of the process.
    pub pid: Pid,
    /// The start time of the process, in clock ticks after the boot.
    pub started_ticks: u64,
    /// The pinned threads of the process.
    pub pins: Vec<Pin>,
    /// The numbers of the groups, each with the number of the process's part of it.
    pub parts: Vec<(EntityId, EntityId)>,
}

/// The files to which a balancer writes its state and its moves.
#[derive(Clone, Debug)]
pub struct Storage {
    /// The file of the state; `None`: the state is not saved.
    pub state: Option<StateFile>,
    /// The ledger of the balancer's moves; `None`: moves are not recorded.
    pub ledger: Option<LedgerStore>,
    /// Returns the time, in milliseconds after 1970.
    pub unix_ms: fn() -> u64,
    /// The command line that the ledger names.
    pub command: Vec<Name>,
    /// Whether the user was already told that nothing can be written; writing is tried all the
    /// same.
    pub trouble_told: bool,
}

/// Returns the state file at a path.
pub fn state_file(path: PathBuf) -> StateFile {
    StateFile::new(path, STATE_VERSION)
}

/// Reads what a balancer saved, with the changes of groups by calls since its last round; `None` if
/// there is no such file.
///
/// # Errors
/// Those of [`StateFile::read_with_changes`].
pub fn read_state(file: &StateFile) -> Result<Option<SavedState>, StateError> {
    let read = file.read_with_changes::<SavedState, Vec<GroupChange>>()?;
    Ok(read.map(|(mut saved, changes)| {
        for change in changes.iter().flatten() {
            // Only what was changed is saved. What threads did meanwhile is not, so that a group
            // may be gone that a change names.
            let _ = saved.called.apply(change);
        }
        saved
    }))
}
