//! The groups that calls make, as the agent and the balancer share them.
//!
//! Whoever locks them sees what happened before: threads that members started have joined. So a
//! call and a start take effect in the order in which they happened. What calls change is saved
//! when the lock is given back, before anybody is answered.

use std::mem;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nodeward_machine::Machine;
use nodeward_model::{GroupHome, GroupName};
use nodeward_records::state::StateLog;

use super::called_groups::{CalledGroups, GroupCallError, GroupNumber};
use super::group_change::GroupChange;
use super::process_key::ProcessKey;
use super::report::Notice;
use super::thread_starts::ThreadStarts;

/// The groups of a machine.
pub struct SharedGroups {
    machine: Arc<dyn Machine>,
    state: Mutex<GroupsState>,
}

#[derive(Default)]
struct GroupsState {
    groups: CalledGroups,
    starts: ThreadStarts,
    /// Where changes are saved; `None` until the groups have been saved whole, and after a change
    /// could not be.
    log: Option<StateLog>,
    /// Changes that are to be saved.
    changes: Vec<GroupChange>,
}

/// The groups, locked. When it is dropped, changes are saved, and threads that start are followed
/// if that matters now.
pub struct LockedGroups<'a> {
    machine: &'a dyn Machine,
    state: MutexGuard<'a, GroupsState>,
}

impl SharedGroups {
    /// Shares groups of processes of a machine.
    pub fn new(machine: Arc<dyn Machine>, groups: CalledGroups) -> Self {
        let state = GroupsState { groups, ..GroupsState::default() };
        Self { machine, state: Mutex::new(state) }
    }

    /// Locks the groups. Cost: a read of memory for each CPU while some group has single threads.
    pub fn lock(&self) -> LockedGroups<'_> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let records = state.starts.take();
        state.groups.see_threads(&records);
        LockedGroups { machine: &*self.machine, state }
    }
}

impl LockedGroups<'_> {
    /// Makes a change.
    ///
    /// # Errors
    /// Those of [`CalledGroups::apply`].
    pub fn change(&mut self, change: GroupChange) -> Result<(), GroupCallError> {
        self.state.groups.apply(&change)?;
        self.state.changes.push(change);
        Ok(())
    }

    /// Makes a group without members, and returns its number.
    ///
    /// # Errors
    /// Those of [`CalledGroups::add_group`].
    pub fn add_group(
        &mut self,
        name: GroupName,
        owner: u32,
        home: GroupHome,
    ) -> Result<GroupNumber, GroupCallError> {
        self.change(GroupChange::AddGroup { name, owner, home })?;
        Ok(self.last())
    }

    /// Enters which program a process runs now, as [`CalledGroups::see_program`].
    pub fn see_program(&mut self, key: ProcessKey, program: u32) {
        if self.program(key) != Some(program) {
            self.state.groups.see_program(key, program);
            self.state.changes.push(GroupChange::SeeProgram { key, program });
        }
    }

    /// The groups, for changes by what a round sees. They are saved at its end.
    pub(super) fn groups_mut(&mut self) -> &mut CalledGroups {
        &mut self.state.groups
    }

    /// The place where changes are saved from now on.
    pub(super) fn log_mut(&mut self) -> &mut Option<StateLog> {
        &mut self.state.log
    }

    /// Returns the reason for which threads that members start do not join their groups, and the
    /// remedy; `None` if they do, or if no group has single threads.
    pub fn starts_refusal(&self) -> Option<&str> {
        self.state.starts.refusal()
    }

    /// Returns what the user was not told before about threads that start.
    pub(super) fn notices(&mut self) -> Vec<Notice> {
        self.state.starts.notices()
    }

    /// Returns the number of records of threads that were lost since some group has had single
    /// threads. Threads of which they told may be missing in groups.
    pub fn starts_lost(&self) -> u64 {
        self.state.starts.lost()
    }
}

impl Deref for LockedGroups<'_> {
    type Target = CalledGroups;

    fn deref(&self) -> &CalledGroups {
        &self.state.groups
    }
}

impl GroupsState {
    /// Saves the changes, those of one lock all or none. If that fails, the next round saves the
    /// groups whole, and tells if that fails, too.
    fn save_changes(&mut self) {
        let changes = mem::take(&mut self.changes);
        if let (Some(log), false) = (&mut self.log, changes.is_empty())
            && log.append(&changes).is_err()
        {
            self.log = None;
        }
    }
}

impl Drop for LockedGroups<'_> {
    fn drop(&mut self) {
        self.state.save_changes();
        let is_wanted = self.state.groups.has_named_threads();
        self.state.starts.follow(self.machine, is_wanted);
    }
}
