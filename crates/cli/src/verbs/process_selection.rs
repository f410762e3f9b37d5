//! Selects the processes of a move: by process id, by name, by control group; and holds them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use nodeward_linux::process_lookup;
use nodeward_machine::{Error, Machine, Process};
use nodeward_model::{Escape as _, Name, Pid};

use crate::machines::cgroups;

/// Returns the selected processes, without duplicates, in the order in which they were named.
pub fn select_processes(
    names: &[Name],
    cgroups: &[PathBuf],
    mut pids: Vec<Pid>,
) -> Result<Vec<Pid>> {
    let root = Path::new("/");
    for name in names {
        let found = process_lookup::by_name(root, name)?;
        if found.is_empty() {
            bail!("no process is called '{name}' (names are those of ps -e, at most 15 bytes)");
        }
        pids.extend(found);
    }
    for group in cgroups {
        let found = process_lookup::by_cgroup(root, group)
            .map_err(|error| cgroups::explain_missing(group, error))?;
        if found.is_empty() {
            bail!("no process is in the control group '{}'", group.escaped());
        }
        pids.extend(found);
    }
    let mut seen = BTreeSet::new();
    pids.retain(|pid| seen.insert(*pid));
    Ok(pids)
}

/// Holds processes. Those that are not named, but were found by a name or a group, may have ended
/// since, or be kernel threads: they are left out, unless all are.
pub fn hold(machine: &dyn Machine, pids: &[Pid], named: &[Pid]) -> Result<Vec<Arc<dyn Process>>> {
    let mut held = Vec::new();
    let mut ended = None;
    for &pid in pids {
        match machine.open_process(pid) {
            Ok(process) => held.push(process),
            Err(error) if has_no_memory(&error) && !named.contains(&pid) => ended = Some(error),
            Err(error) => return Err(error.into()),
        }
    }
    match ended {
        Some(error) if held.is_empty() => Err(error.into()),
        _ => Ok(held),
    }
}

fn has_no_memory(error: &Error) -> bool {
    error.is_gone() || matches!(error, Error::KernelThread(_))
}

#[cfg(test)]
mod tests {
    use nodeward_machine::fake::{FakeMachine, FakeProcess};

    use super::*;

    /// Goal: of processes that were found, those that ended since are left out, unless all have;
    /// one that was named is missed.
    #[test]
    fn a_process_that_ended_is_missed_if_it_was_named() {
        let [ended, other, lives] = [1, 2, 3].map(|pid| Pid::new(pid).unwrap());
        let machine = FakeMachine::new(true);
        machine.spawn(lives, FakeProcess::default());
        let held = |pids: &[Pid], named: &[Pid]| {
            let held = hold(&machine, pids, named).ok()?;
            Some(held.iter().map(|process| process.pid()).collect::<Vec<_>>())
        };
        assert_eq!(held(&[ended, lives], &[]), Some(vec![lives]));
        assert_eq!(held(&[lives, ended], &[lives]), Some(vec![lives]));
        assert_eq!(held(&[ended, lives], &[ended]), None);
        assert_eq!(held(&[ended, other], &[]), None);
        assert!(has_no_memory(&Error::KernelThread(ended)), "of a control group");
    }
}
