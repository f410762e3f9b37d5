//! io.nodeward.Groups: groups of threads and memory that programs make.

use std::collections::BTreeMap;
use std::sync::Arc;

use nodeward_balancer::{
    CalledGroup, CalledGroups, CalledPart, GroupCallError, GroupChange, GroupNumber, GroupRow,
    LockedGroups, ProcessKey, RoundReport, SharedGroups, ThreadSet,
};
use nodeward_machine::Machine;
use nodeward_model::{GroupHome, GroupName, MemorySelector, Pid};
use serde_json::{Value, json};

use crate::caller::Caller;
use crate::errors::CallError;
use crate::gate::{self, Held};
use crate::homes::home_pages;
use crate::limits::{GROUPS_OF_USER_MAX, MEMBERS_MAX, PIECES_OF_USER_MAX};

/// The groups that programs make.
pub struct Groups {
    /// The groups, which the balancer reads at the beginning of each round.
    pub called: Arc<SharedGroups>,
    /// The machine on which the groups are.
    pub machine: Arc<dyn Machine>,
}

impl Groups {
    /// Makes a group.
    ///
    /// # Errors
    /// If the user has too many, or the home does not exist.
    pub fn add_group(
        &self,
        caller: &Caller,
        name: GroupName,
        home: GroupHome,
    ) -> Result<GroupNumber, CallError> {
        self.check_home(caller, &home)?;
        let mut groups = self.lock();
        let is_own = |group: &CalledGroup| group.owner == caller.user();
        let own = groups.iter().filter(|(_, group)| is_own(group)).count();
        if own >= GROUPS_OF_USER_MAX && !caller.rights.everything {
            return Err(CallError::limit_reached(format!("you have {own} groups; delete some")));
        }
        groups
            .add_group(name, caller.user(), home)
            .map_err(|error| CallError::limit_reached(error.to_string()))
    }

    /// Says where a group is to be.
    ///
    /// # Errors
    /// If there is no such group of the caller, or the home does not exist.
    pub fn set_home(
        &self,
        caller: &Caller,
        number: GroupNumber,
        home: GroupHome,
    ) -> Result<(), CallError> {
        self.check_home(caller, &home)?;
        let mut groups = self.lock_for(caller, number)?;
        groups
            .change(GroupChange::SetHome { group: number, home })
            .map_err(|error| told(error, number))
    }

    /// Deletes a group.
    ///
    /// # Errors
    /// If there is no such group of the caller.
    pub fn delete(&self, caller: &Caller, number: GroupNumber) -> Result<(), CallError> {
        let mut groups = self.lock_for(caller, number)?;
        groups.change(GroupChange::Delete { group: number }).map_err(|error| told(error, number))
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
        threads: Option<&[Pid]>,
    ) -> Result<(), CallError> {
        let held = gate::check(caller, pid)?;
        let (key, program) = member_of(caller, &held, pid)?;
        let ours = threads.map(|threads| gate::threads(caller, &held, threads)).transpose()?;
        let mut groups = self.lock_for(caller, number)?;
        groups.see_program(key, program);
        let group = number;
        let added = match ours {
            None => groups.change(GroupChange::AddAllThreads { group, key }),
            Some(tids) => tids
                .into_iter()
                .try_for_each(|tid| groups.change(GroupChange::AddThread { group, key, tid })),
        };
        added.map_err(|error| told(error, number))
    }

    /// Puts memory of a process into a group, which the process moves itself or the balancer does.
    /// Addresses are widened to whole pages.
    ///
    /// # Errors
    /// If there is no such group of the caller, it or the user has too many pieces, or the process
    /// is not the caller's. Then nothing changes.
    pub fn add_memory(
        &self,
        caller: &Caller,
        number: GroupNumber,
        pid: Option<Pid>,
        (memory, self_moved): (&[MemorySelector], bool),
    ) -> Result<(), CallError> {
        let held = gate::check(caller, pid)?;
        let (key, program) = member_of(caller, &held, pid)?;
        let mut groups = self.lock_for(caller, number)?;
        groups.see_program(key, program);
        if groups.get(number).is_none() {
            return Err(CallError::NoSuchGroup { group: number }); // it ended by exec
        }
        let known = groups.get(number).and_then(|group| group.parts.get(&key));
        if known.map_or(0, |part| part.memory.len()) + memory.len() > MEMBERS_MAX {
            return Err(told(GroupCallError::TooManyPieces, number));
        }
        if !caller.rights.everything {
            check_pieces(&groups, caller.user(), memory.len())?;
        }
        let mut memory = memory.iter().map(|one| whole_pages(one, self.machine.page_bytes()));
        let group = number;
        let added = memory.try_for_each(|one| {
            groups.change(match one {
                MemorySelector::Range(range) if self_moved => {
                    GroupChange::AddSelfMoved { group, key, range }
                }
                memory => GroupChange::AddMemory { group, key, memory },
            })
        });
        added.map_err(|error| told(error, number))
    }

    /// Returns the group of a thread; of the first one of the process if `thread` is `None`.
    ///
    /// # Errors
    /// If the process or the thread is not the caller's.
    pub fn group_of(
        &self,
        caller: &Caller,
        pid: Option<Pid>,
        thread: Option<Pid>,
    ) -> Result<Option<GroupNumber>, CallError> {
        let held = gate::check(caller, pid)?;
        let (key, program) = member_of(caller, &held, pid)?;
        self.lock().see_program(key, program);
        let tid = match thread {
            Some(thread) => gate::threads(caller, &held, &[thread])?[0],
            None => key.0.number(),
        };
        Ok(self.lock().group_of(key, tid))
    }

    /// Returns the nodes of a caller's groups and of their memory by the last round; groups that
    /// are gone are left out.
    pub fn nodes_of(
        &self,
        caller: &Caller,
        numbers: &[GroupNumber],
        report: &RoundReport,
    ) -> Value {
        let rows: BTreeMap<_, _> =
            report.groups.iter().filter_map(|row| Some((row.called?, row.home.as_ref()))).collect();
        let groups = self.lock();
        let is_own = |number: &&GroupNumber| {
            groups.get(**number).is_some_and(|group| may_change(caller, group))
        };
        let nodes = |&number: &GroupNumber| {
            let mut value = json!({ "group": number });
            if let Some(home) = rows.get(&number).copied().flatten() {
                value["nodes"] = json!(home.thread_nodes().iter().collect::<Vec<_>>());
                value["memory_nodes"] = json!(home.memory_nodes().iter().collect::<Vec<_>>());
            }
            value
        };
        let groups: Vec<_> = numbers.iter().filter(is_own).map(nodes).collect();
        json!({ "groups": groups })
    }

    /// Returns the groups of a caller, with what the last round said of them; all for root.
    pub fn list(&self, caller: &Caller, report: &RoundReport) -> Value {
        let rows: BTreeMap<_, _> =
            report.groups.iter().map(|row| (row.called, row)).filter(|it| it.0.is_some()).collect();
        let (groups, starts_unseen) = {
            let locked = self.lock();
            (CalledGroups::clone(&locked), starts_unseen(&locked))
        };
        let own = groups.iter().filter(|(_, group)| may_change(caller, group));
        let own = own.map(|(number, group)| {
            shown(caller, (number, group), rows.get(&Some(number)).copied(), report.acted)
        });
        let rules = report.groups.iter().filter(|row| row.called.is_none());
        let rules = rules.filter(|_| caller.rights.everything).map(|row| {
            let mut value = json!({ "name": row.name, "members": [] });
            add_row(&mut value, Some(row), report.acted);
            value
        });
        let mut value = json!({ "groups": own.chain(rules).collect::<Vec<_>>() });
        if let Some(why) = starts_unseen {
            value["starts_unseen"] = json!(why);
        }
        value
    }

    /// Checks that the nodes of a home exist.
    fn check_home(&self, caller: &Caller, home: &GroupHome) -> Result<(), CallError> {
        let Some(nodes) = home.named_nodes() else { return Ok(()) };
        let topology = self.machine.topology();
        let all = topology.map_err(|error| CallError::failed(&error, caller.own_pid()))?.node_ids();
        match nodes.without(&all) {
            missing if missing.is_empty() => Ok(()),
            missing => Err(CallError::invalid(format!(
                "home: there is no node {missing}; there are {all}"
            ))),
        }
    }

    fn lock(&self) -> LockedGroups<'_> {
        self.called.lock()
    }

    /// Locks the groups for a change of one, which must be the caller's.
    fn lock_for(
        &self,
        caller: &Caller,
        number: GroupNumber,
    ) -> Result<LockedGroups<'_>, CallError> {
        let groups = self.lock();
        match groups.get(number).is_some_and(|group| may_change(caller, group)) {
            true => Ok(groups),
            false => Err(CallError::NoSuchGroup { group: number }),
        }
    }
}

/// Returns why threads that members start may be missing in groups, and what to do.
fn starts_unseen(groups: &LockedGroups<'_>) -> Option<String> {
    match (groups.starts_refusal(), groups.starts_lost()) {
        (Some(remedy), _) => Some(format!("it is not known who starts which thread: {remedy}")),
        (None, 0) => None,
        (None, lost) => Some(format!(
            "{lost} records of threads that started or ended were lost; add those that are missing"
        )),
    }
}

fn told(error: GroupCallError, number: GroupNumber) -> CallError {
    match error {
        GroupCallError::NoGroup => CallError::NoSuchGroup { group: number },
        error => CallError::limit_reached(error.to_string()),
    }
}

/// Checks that a user may have `more` further pieces of memory in groups.
fn check_pieces(groups: &CalledGroups, user: u32, more: usize) -> Result<(), CallError> {
    let own = groups.iter().filter(|(_, group)| group.owner == user);
    let pieces = own.flat_map(|(_, group)| group.parts.values()).map(|part| part.memory.len());
    match pieces.sum::<usize>() + more <= PIECES_OF_USER_MAX {
        true => Ok(()),
        false => Err(CallError::limit_reached(format!(
            "your groups have at most {PIECES_OF_USER_MAX} pieces of memory; name larger ones, or \
             delete groups"
        ))),
    }
}

fn whole_pages(memory: &MemorySelector, page_bytes: u64) -> MemorySelector {
    let MemorySelector::Range(range) = memory else { return memory.clone() };
    MemorySelector::Range(range.whole_pages(page_bytes))
}

fn may_change(caller: &Caller, group: &CalledGroup) -> bool {
    caller.rights.everything || group.owner == caller.user()
}

/// Returns a process as groups know it, and a checksum of the program that it runs.
fn member_of(
    caller: &Caller,
    held: &Held<'_>,
    pid: Option<Pid>,
) -> Result<(ProcessKey, u32), CallError> {
    let shown = pid.unwrap_or_else(|| caller.own_pid());
    let identity = held.identity().map_err(|error| CallError::failed(&error, shown))?;
    Ok(((held.pid(), identity.started_ticks), identity.auxv_checksum))
}

fn shown(
    caller: &Caller,
    (number, group): (GroupNumber, &CalledGroup),
    row: Option<&GroupRow>,
    acted: bool,
) -> Value {
    let member = |(key, part): (&ProcessKey, &CalledPart)| {
        let pid = gate::shown_to(caller, key.0)?;
        let (all, threads) = match &part.threads {
            ThreadSet::All => (true, Vec::new()),
            ThreadSet::These(tids) => (false, gate::shown_threads(caller, key.0, tids)),
        };
        let memory: Vec<String> = part.memory.iter().map(ToString::to_string).collect();
        let self_moved: Vec<String> = part.self_moved.iter().map(ToString::to_string).collect();
        Some(json!({
            "pid": pid,
            "all_threads": all,
            "threads": threads,
            "memory": memory,
            "self_moved": self_moved,
        }))
    };
    let mut value = json!({
        "group": number,
        "name": group.name,
        "uid": group.owner,
        "home": group.home.to_string(),
        "members": group.parts.iter().filter_map(member).collect::<Vec<_>>(),
    });
    add_row(&mut value, row, acted);
    value
}

fn add_row(value: &mut Value, row: Option<&GroupRow>, acted: bool) {
    value["threads"] = json!(row.map(|row| &row.threads).cloned().unwrap_or_default());
    value["pages"] = json!(row.map(|row| &row.residency).cloned().unwrap_or_default());
    let Some(row) = row else { return };
    let (threads_brought, pages_brought) = row.done.brought(&row.decision, acted);
    value["verdict"] = json!(row.decision.verdict);
    value["reason"] = json!(row.decision.reason);
    value["threads_brought"] = json!(threads_brought);
    value["pages_brought"] = json!(pages_brought);
    if let Some(reason) = row.decision.threads {
        value["threads_reason"] = json!(reason);
    }
    if let Some(reason) = row.decision.memory {
        value["memory_reason"] = json!(reason);
    }
    if let Some(home) = &row.home {
        value["nodes"] = json!(home.thread_nodes().iter().collect::<Vec<_>>());
        value["home_pages"] = json!(home_pages(home, &row.residency));
    }
}
