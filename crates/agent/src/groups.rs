//! io.nodeward.Groups: groups of threads and memory that programs make.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nodeward_balancer::{
    CalledGroup, CalledGroups, CalledPart, GroupCallError, GroupNumber, GroupRow, ProcessKey,
    RoundReport, ThreadSet,
};
use nodeward_model::{GroupHome, GroupName, MemorySelector, Pid};
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::errors::CallError;
use crate::gate::{self, Held};
use crate::limits::GROUPS_OF_USER_MAX;

/// The groups, which the balancer reads at the beginning of each round.
pub struct Groups(pub Arc<Mutex<CalledGroups>>);

impl Groups {
    /// Makes a group.
    ///
    /// # Errors
    /// If the user has too many.
    pub fn add_group(
        &self,
        caller: &Caller,
        name: GroupName,
        home: GroupHome,
    ) -> Result<GroupNumber, CallError> {
        let mut groups = self.lock();
        let is_own = |group: &CalledGroup| group.owner == caller.user();
        let own = groups.iter().filter(|(_, group)| is_own(group)).count();
        if own >= GROUPS_OF_USER_MAX && !caller.rights.everything {
            return Err(CallError::busy(format!("you have {own} groups; delete some")));
        }
        groups
            .add_group(name, caller.user(), home)
            .map_err(|error| CallError::busy(error.to_string()))
    }

    /// Says where a group is to be.
    ///
    /// # Errors
    /// If there is no such group of the caller.
    pub fn set_home(
        &self,
        caller: &Caller,
        number: GroupNumber,
        home: GroupHome,
    ) -> Result<(), CallError> {
        self.change(caller, number, |groups| groups.set_home(number, home))
    }

    /// Deletes a group.
    ///
    /// # Errors
    /// If there is no such group of the caller.
    pub fn delete(&self, caller: &Caller, number: GroupNumber) -> Result<(), CallError> {
        self.change(caller, number, |groups| groups.delete(number).map(|_| ()))
    }

    /// Puts threads of a process into a group; all if `threads` is `None`.
    ///
    /// # Errors
    /// If there is no such group of the caller, or the process or a thread is not the caller's.
    /// Then nothing changes.
    pub fn add_threads(
        &self,
        caller: &Caller,
        number: GroupNumber,
        pid: Option<Pid>,
        threads: Option<&[u32]>,
    ) -> Result<(), CallError> {
        let held = gate::check(caller, pid)?;
        let key = key_of(caller, &held, pid)?;
        let Some(threads) = threads else {
            return self.change(caller, number, |groups| groups.add_all_threads(number, key));
        };
        let ours = gate::threads(caller, &held, threads)?;
        self.change(caller, number, |groups| {
            ours.into_iter().try_for_each(|tid| groups.add_thread(number, key, tid))
        })
    }

    /// Puts memory of a process into a group.
    ///
    /// # Errors
    /// If there is no such group of the caller, it has too many pieces, or the process is not the
    /// caller's.
    pub fn add_memory(
        &self,
        caller: &Caller,
        number: GroupNumber,
        pid: Option<Pid>,
        memory: &[MemorySelector],
    ) -> Result<(), CallError> {
        let held = gate::check(caller, pid)?;
        let key = key_of(caller, &held, pid)?;
        self.change(caller, number, |groups| {
            memory.iter().try_for_each(|one| groups.add_memory(number, key, one.clone()))
        })
    }

    /// Returns the group of a thread; of the first one of the process if `thread` is `None`.
    ///
    /// # Errors
    /// If the process or the thread is not the caller's.
    pub fn group_of(
        &self,
        caller: &Caller,
        pid: Option<Pid>,
        thread: Option<u32>,
    ) -> Result<Option<GroupNumber>, CallError> {
        let held = gate::check(caller, pid)?;
        let key = key_of(caller, &held, pid)?;
        let tid = match thread {
            Some(thread) => gate::threads(caller, &held, &[thread])?[0],
            None => key.0.number(),
        };
        Ok(self.lock().group_of(key, tid))
    }

    /// Returns the groups of a caller, with what the last round said of them; all for root.
    pub fn list(&self, caller: &Caller, report: &RoundReport) -> Value {
        let rows: BTreeMap<_, _> =
            report.groups.iter().map(|row| (row.called, row)).filter(|it| it.0.is_some()).collect();
        let groups = self.lock().clone();
        let own = groups.iter().filter(|(_, group)| may_change(caller, group));
        let own = own.map(|(number, group)| {
            shown(caller, (number, group), rows.get(&Some(number)).copied())
        });
        let rules = report.groups.iter().filter(|row| row.called.is_none());
        let rules = rules.filter(|_| caller.rights.everything).map(|row| {
            let mut value = json!({ "name": row.name, "members": [] });
            add_row(&mut value, Some(row));
            value
        });
        json!({ "groups": own.chain(rules).collect::<Vec<_>>() })
    }

    fn lock(&self) -> MutexGuard<'_, CalledGroups> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(
        &self,
        caller: &Caller,
        number: GroupNumber,
        change: impl FnOnce(&mut CalledGroups) -> Result<(), GroupCallError>,
    ) -> Result<(), CallError> {
        let mut groups = self.lock();
        if !groups.get(number).is_some_and(|group| may_change(caller, group)) {
            return Err(CallError::NoSuchGroup { group: number });
        }
        change(&mut groups).map_err(|error| match error {
            GroupCallError::NoGroup => CallError::NoSuchGroup { group: number },
            error => CallError::busy(error.to_string()),
        })
    }
}

fn may_change(caller: &Caller, group: &CalledGroup) -> bool {
    caller.rights.everything || group.owner == caller.user()
}

fn key_of(caller: &Caller, held: &Held<'_>, pid: Option<Pid>) -> Result<ProcessKey, CallError> {
    let shown = pid.unwrap_or_else(|| caller.own_pid());
    let started = held.started_ticks().map_err(|error| CallError::failed(&error, shown))?;
    Ok((held.pid(), started))
}

fn shown(
    caller: &Caller,
    (number, group): (GroupNumber, &CalledGroup),
    row: Option<&GroupRow>,
) -> Value {
    let member = |(key, part): (&ProcessKey, &CalledPart)| {
        let pid = gate::shown_to(caller, key.0)?;
        let (all, threads) = match &part.threads {
            ThreadSet::All => (true, Vec::new()),
            ThreadSet::These(tids) => (false, gate::shown_threads(caller, key.0, tids)),
        };
        let memory: Vec<String> = part.memory.iter().map(ToString::to_string).collect();
        Some(json!({ "pid": pid, "all_threads": all, "threads": threads, "memory": memory }))
    };
    let mut value = json!({
        "group": number,
        "name": group.name,
        "uid": group.owner,
        "home": group.home.to_string(),
        "members": group.parts.iter().filter_map(member).collect::<Vec<_>>(),
    });
    add_row(&mut value, row);
    value
}

fn add_row(value: &mut Value, row: Option<&GroupRow>) {
    value["threads"] = json!(row.map(|row| &row.threads).cloned().unwrap_or_default());
    value["pages"] = json!(row.map(|row| &row.residency).cloned().unwrap_or_default());
    let Some(row) = row else { return };
    value["reason"] = json!(row.decision.reason);
    if let Some(reason) = row.decision.memory {
        value["memory_reason"] = json!(reason);
    }
    if let Some(home) = &row.home {
        value["nodes"] = json!(home.thread_nodes().iter().collect::<Vec<_>>());
    }
}
