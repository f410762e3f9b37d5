//! A change of the groups that calls make, as it is applied and as it is saved.

use nodeward_model::{GroupHome, GroupName, MemorySelector, Range};
use serde::{Deserialize, Serialize};

use super::called_groups::{CalledGroups, GroupCallError, GroupNumber};
use super::process_key::ProcessKey;

/// A change of groups by a call. The same changes of the same groups give the same groups, with the
/// same numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupChange {
    /// [`CalledGroups::add_group`].
    AddGroup {
        /// The name of the group.
        name: GroupName,
        /// The id of the user who made the group.
        owner: u32,
        /// The nodes on which the group is to be.
        home: GroupHome,
    },
    /// [`CalledGroups::set_home`].
    SetHome {
        /// The group.
        group: GroupNumber,
        /// The nodes on which the group is to be.
        home: GroupHome,
    },
    /// [`CalledGroups::delete`].
    Delete {
        /// The group.
        group: GroupNumber,
    },
    /// [`CalledGroups::add_thread`].
    AddThread {
        /// The group.
        group: GroupNumber,
        /// The process.
        key: ProcessKey,
        /// The thread of the process.
        tid: u32,
    },
    /// [`CalledGroups::add_all_threads`].
    AddAllThreads {
        /// The group.
        group: GroupNumber,
        /// The process.
        key: ProcessKey,
    },
    /// [`CalledGroups::add_memory`].
    AddMemory {
        /// The group.
        group: GroupNumber,
        /// The process.
        key: ProcessKey,
        /// The memory of the process.
        memory: MemorySelector,
    },
    /// [`CalledGroups::add_self_moved`].
    AddSelfMoved {
        /// The group.
        group: GroupNumber,
        /// The process.
        key: ProcessKey,
        /// The addresses, of whole pages.
        range: Range,
    },
    /// [`CalledGroups::see_program`].
    SeeProgram {
        /// The process.
        key: ProcessKey,
        /// A checksum of the program that it runs.
        program: u32,
    },
}

impl CalledGroups {
    /// Makes a change.
    ///
    /// # Errors
    /// Those of the call; nothing changes then.
    pub fn apply(&mut self, change: &GroupChange) -> Result<(), GroupCallError> {
        match change.clone() {
            GroupChange::AddGroup { name, owner, home } => {
                self.add_group(name, owner, home).map(drop)
            }
            GroupChange::SetHome { group, home } => self.set_home(group, home),
            GroupChange::Delete { group } => self.delete(group).map(drop),
            GroupChange::AddThread { group, key, tid } => self.add_thread(group, key, tid),
            GroupChange::AddAllThreads { group, key } => self.add_all_threads(group, key),
            GroupChange::AddMemory { group, key, memory } => self.add_memory(group, key, memory),
            GroupChange::AddSelfMoved { group, key, range } => {
                self.add_self_moved(group, key, range)
            }
            GroupChange::SeeProgram { key, program } => {
                self.see_program(key, program);
                Ok(())
            }
        }
    }
}
