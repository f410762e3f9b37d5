//! The groups that calls make, as the agent and the balancer share them.
//!
//! Whoever locks them sees what happened before: threads that members started have joined. So a
//! call and a start take effect in the order in which they happened.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nodeward_machine::Machine;

use super::called_groups::CalledGroups;
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
}

/// The groups, locked. When it is dropped, threads that start are followed if that matters now.
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

impl DerefMut for LockedGroups<'_> {
    fn deref_mut(&mut self) -> &mut CalledGroups {
        &mut self.state.groups
    }
}

impl Drop for LockedGroups<'_> {
    fn drop(&mut self) {
        let is_wanted = self.state.groups.has_named_threads();
        self.state.starts.follow(self.machine, is_wanted);
    }
}
