//! The calls about groups, answered by the balancer of this process.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use nodeward::{GroupFailure, GroupHome, GroupName, GroupNodes, GroupService, Threads};
use nodeward_balancer::{GroupCallError, GroupChange, LockedGroups};
use nodeward_linux::process_lookup;
use nodeward_model::{MemorySelector, Pid, Range};

use crate::shared::OwnShared;

/// The groups of this process.
pub struct OwnGroups(pub Arc<OwnShared>);

impl fmt::Debug for OwnGroups {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("OwnGroups").field("process", &self.0.key.0).finish_non_exhaustive()
    }
}

impl OwnGroups {
    /// Changes the groups; the next round goes by that.
    fn change(&self, group: u32, change: GroupChange) -> Result<(), GroupFailure> {
        self.change_with(group, |groups| groups.change(change))
    }

    fn change_with<T>(
        &self,
        group: u32,
        change: impl FnOnce(&mut LockedGroups<'_>) -> Result<T, GroupCallError>,
    ) -> Result<T, GroupFailure> {
        self.0.check()?;
        let changed = change(&mut self.0.called.lock());
        let changed = changed.map_err(|error| told(error, group))?;
        let mut state = self.0.lock();
        if !state.has_groups {
            state.has_groups = true;
            self.0.wake.notify_all();
        }
        Ok(changed)
    }

    /// Checks that a thread is one of this process.
    fn own(&self, tid: u32) -> Result<u32, GroupFailure> {
        let thread = Pid::new(tid).ok();
        match thread.and_then(|tid| process_lookup::by_thread(Path::new("/"), tid)) {
            None => Err(GroupFailure::NoSuchThread { tid }),
            Some(pid) if pid == self.0.key.0 => Ok(tid),
            Some(pid) => Err(GroupFailure::NotAllowed(format!(
                "thread {tid} is one of process {pid}; a balancer in a program places threads of \
                 that program alone, those of others by an agent"
            ))),
        }
    }
}

impl GroupService for OwnGroups {
    fn make_group(&self, name: GroupName, home: &GroupHome) -> Result<u32, GroupFailure> {
        let user = rustix::process::geteuid().as_raw();
        self.change_with(0, |groups| groups.add_group(name, user, home.clone()))
    }

    fn set_home(&self, group: u32, home: &GroupHome) -> Result<(), GroupFailure> {
        self.change(group, GroupChange::SetHome { group, home: home.clone() })
    }

    fn add_threads(&self, group: u32, threads: Threads) -> Result<(), GroupFailure> {
        let key = self.0.key;
        let tid = match threads {
            Threads::All => return self.change(group, GroupChange::AddAllThreads { group, key }),
            Threads::Current => rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned(),
            Threads::One(tid) => self.own(tid)?,
        };
        self.change(group, GroupChange::AddThread { group, key, tid })
    }

    fn add_memory(&self, group: u32, memory: Range, self_moved: bool) -> Result<(), GroupFailure> {
        let (key, range) = (self.0.key, memory.whole_pages(self.0.page_bytes));
        let change = match self_moved {
            true => GroupChange::AddSelfMoved { group, key, range },
            false => GroupChange::AddMemory { group, key, memory: MemorySelector::Range(range) },
        };
        self.change(group, change)
    }

    fn group_of(&self, tid: u32) -> Result<Option<u32>, GroupFailure> {
        self.0.check()?;
        let tid = self.own(tid)?;
        Ok(self.0.called.lock().group_of(self.0.key, tid))
    }

    fn nodes_of(&self, groups: &[u32]) -> Result<BTreeMap<u32, GroupNodes>, GroupFailure> {
        self.0.check()?;
        let called = self.0.called.lock();
        let there: Vec<u32> =
            groups.iter().copied().filter(|&group| called.get(group).is_some()).collect();
        drop(called);
        let state = self.0.lock();
        let nodes = |group: u32| (group, state.nodes.get(&group).cloned().unwrap_or_default());
        Ok(there.into_iter().map(nodes).collect())
    }

    fn delete(&self, group: u32) -> Result<(), GroupFailure> {
        self.change(group, GroupChange::Delete { group })
    }
}

fn told(error: GroupCallError, group: u32) -> GroupFailure {
    match error {
        GroupCallError::NoGroup => GroupFailure::NoSuchGroup { id: group },
        error => GroupFailure::LimitReached(error.to_string()),
    }
}
