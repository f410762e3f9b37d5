//! Takes hold of processes that callers name, if they may touch them.
//!
//! What is decided about is what is held: the process is held by a pidfd before anything of it is
//! read, and still runs after everything was read. Its memory is held as that of one program: if it
//! calls exec afterwards, the handle is of no use.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use nodeward_linux::{HeldPid, pid_namespace};
use nodeward_machine::{Error, Machine, Process};
use nodeward_model::{Pid, ProcessIdentity};

use crate::authority::Refusal;
use crate::caller::Caller;
use crate::errors::CallError;

/// A process that a caller may touch.
pub struct Admitted {
    /// The process, as one of the machine.
    pub process: Arc<dyn Process>,
    /// The pid of the process in the caller's pid namespace.
    pub shown: Pid,
}

/// A process that is held while a request is served.
pub enum Held<'a> {
    /// The process of the caller.
    Caller(&'a HeldPid),
    /// A process that is held for this request only.
    Other(HeldPid),
}

impl Deref for Held<'_> {
    type Target = HeldPid;

    fn deref(&self) -> &HeldPid {
        match self {
            Self::Caller(held) => held,
            Self::Other(held) => held,
        }
    }
}

/// Admits a process of a machine; the caller's own if `pid` is `None`.
///
/// # Errors
/// `NotAllowed` with the reason, or `Failed`.
pub fn admit(
    machine: &dyn Machine,
    caller: &Caller,
    pid: Option<Pid>,
) -> Result<Admitted, CallError> {
    let shown = pid.unwrap_or_else(|| caller.own_pid());
    let held = &check(caller, pid)?;
    let failed = |error: Error| match error {
        Error::Gone(_) => refused(shown, Refusal::NoSuchProcess),
        error => CallError::failed(&error, shown),
    };
    let process = machine.open_process(held.pid()).map_err(failed)?;
    // Once more: it may have become another program, with other credentials, before its memory was
    // held.
    may_touch(caller, held, shown)?;
    Ok(Admitted { process, shown })
}

/// Admits processes of a machine, each once; the caller's own if none is named.
///
/// # Errors
/// As [`admit`].
pub fn admit_all(
    machine: &dyn Machine,
    caller: &Caller,
    pids: &[Pid],
) -> Result<Vec<Admitted>, CallError> {
    if pids.is_empty() {
        return Ok(vec![admit(machine, caller, None)?]);
    }
    let mut seen = BTreeSet::new();
    let once = pids.iter().filter(|&&pid| seen.insert(pid));
    once.map(|&pid| admit(machine, caller, Some(pid))).collect()
}

/// Admits the process that this identity is of; `None` if it is gone, or not the caller's.
pub fn admit_same(
    machine: &dyn Machine,
    caller: &Caller,
    identity: &ProcessIdentity,
) -> Option<Admitted> {
    let shown = shown_to(caller, identity.pid)?;
    let admitted = admit(machine, caller, Some(shown)).ok()?;
    admitted.process.identity().ok()?.is_same(identity).then_some(admitted)
}

/// Checks that the caller may touch a process, and holds it; the caller's own if `pid` is `None`.
///
/// # Errors
/// `NotAllowed` with the reason, or `Failed`.
pub fn check(caller: &Caller, pid: Option<Pid>) -> Result<Held<'_>, CallError> {
    let own = caller.own_pid();
    let shown = pid.unwrap_or(own);
    if shown == own {
        // It is held already, by what the kernel said who connected.
        may_touch(caller, &caller.process, shown)?;
        return Ok(Held::Caller(&caller.process));
    }
    let held = HeldPid::open(translate(caller, shown)?).map_err(|error| match error {
        Error::Gone(_) => refused(shown, Refusal::NoSuchProcess),
        error => CallError::failed(&error, shown),
    })?;
    // The pid was looked up for a caller that was there, so it is of its namespace.
    caller.process.check_alive().map_err(|_| refused(shown, Refusal::CallerGone))?;
    may_touch(caller, &held, shown)?;
    Ok(Held::Other(held))
}

/// Returns the pid by which the caller knows a process of ours, if it may touch it.
pub fn shown_to(caller: &Caller, pid: Pid) -> Option<Pid> {
    let credentials = HeldPid::open(pid).ok()?.credentials().ok()?;
    caller.rights.may_touch(&credentials).ok()?;
    let shown = pid_namespace::in_namespace(&credentials, caller.levels())?;
    // A process as deep in another branch of namespaces has a number there, too.
    let found = translate(caller, shown).ok() == Some(pid);
    found.then_some(shown)
}

/// Returns the thread ids in our namespace of threads of a held process, which the caller names by
/// its own ids.
///
/// # Errors
/// If one of them is no thread of it.
pub fn threads(caller: &Caller, held: &Held<'_>, tids: &[Pid]) -> Result<Vec<u32>, CallError> {
    let all = held.threads(caller.levels()).unwrap_or_default();
    let ours: BTreeMap<u32, u32> = all.into_iter().map(|(ours, shown)| (shown, ours)).collect();
    let find = |tid: &Pid| {
        let found = ours.get(&tid.number()).copied();
        found.ok_or_else(|| refused(*tid, Refusal::NoSuchThread))
    };
    tids.iter().map(find).collect()
}

/// Returns the numbers by which the caller knows threads of a process of ours.
pub fn shown_threads(caller: &Caller, pid: Pid, tids: &BTreeSet<u32>) -> Vec<u32> {
    let all = HeldPid::open(pid).and_then(|held| held.threads(caller.levels()));
    let known = all.unwrap_or_default().into_iter().filter(|(ours, _)| tids.contains(ours));
    let mut shown: Vec<u32> = known.map(|(_, shown)| shown).collect();
    shown.sort_unstable();
    shown
}

fn translate(caller: &Caller, pid: Pid) -> Result<Pid, CallError> {
    let found = pid_namespace::to_ours(&caller.process, &caller.rights.credentials, pid);
    match found {
        Ok(Some(ours)) => Ok(ours),
        Ok(None) => Err(refused(pid, Refusal::NoSuchProcess)),
        Err(_) => Err(refused(pid, Refusal::CallerGone)),
    }
}

fn may_touch(caller: &Caller, held: &HeldPid, shown: Pid) -> Result<(), CallError> {
    let credentials = held.credentials().map_err(|error| match error {
        Error::Gone(_) => refused(shown, Refusal::NoSuchProcess),
        error => CallError::failed(&error, shown),
    })?;
    caller.rights.may_touch(&credentials).map_err(|reason| refused(shown, reason))
}

fn refused(pid: Pid, reason: Refusal) -> CallError {
    CallError::not_allowed(pid, reason)
}
