//! Selects the processes to watch by pid, name, user or control group.

use std::collections::BTreeSet;
use std::path::Path;

use nodeward_machine::Result;
use nodeward_model::{Name, Pid, ProcessFilter};

use crate::{load, process_lookup};

/// A selection, which each sample evaluates anew: names, users and groups change.
#[derive(Debug)]
pub struct ProcessSelection {
    filter: ProcessFilter,
    names: BTreeSet<Name>,
    users: BTreeSet<u32>,
    /// Pids that are selected whatever their name.
    named_pids: BTreeSet<Pid>,
}

impl ProcessSelection {
    /// Returns the selection.
    ///
    /// # Errors
    /// If a control group does not exist.
    pub fn new(wanted: &ProcessFilter, root: &Path) -> Result<Self> {
        for group in &wanted.cgroups {
            process_lookup::by_cgroup(root, group)?;
        }
        Ok(Self {
            names: wanted.names.iter().map(process_lookup::to_comm).collect(),
            users: wanted.users.iter().copied().collect(),
            named_pids: BTreeSet::new(),
            filter: wanted.clone(),
        })
    }

    /// Returns the pids that may be selected now, in ascending order.
    ///
    /// # Errors
    /// If /proc cannot be listed.
    pub fn candidates(&mut self, root: &Path) -> Result<BTreeSet<Pid>> {
        self.named_pids = self.filter.pids.iter().copied().collect();
        for group in &self.filter.cgroups {
            // A group that was removed has no processes.
            self.named_pids.extend(process_lookup::by_cgroup(root, group).unwrap_or_default());
        }
        match self.needs_process_data() || self.filter.matches_all() {
            true => load::pids(root),
            false => Ok(self.named_pids.clone()),
        }
    }

    /// Returns true if a process must be read to know whether it is selected.
    pub fn needs_process_data(&self) -> bool {
        !self.names.is_empty() || !self.users.is_empty()
    }

    /// Returns true if users are selected.
    pub fn selects_users(&self) -> bool {
        !self.users.is_empty()
    }

    /// Returns true if a pid is selected, whatever its process is.
    pub fn is_named(&self, pid: Pid) -> bool {
        self.named_pids.contains(&pid)
    }

    /// Returns true if a process is selected.
    pub fn matches(&self, pid: Pid, name: &Name, user: Option<u32>) -> bool {
        self.filter.matches_all()
            || self.is_named(pid)
            || self.names.contains(name)
            || user.is_some_and(|user| self.users.contains(&user))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(wanted: &ProcessFilter) -> ProcessSelection {
        ProcessSelection::new(wanted, Path::new("/")).unwrap()
    }

    /// Goal: any of the lists is enough, and no list selects all processes.
    #[test]
    fn any_list_is_enough() {
        let pid = |number| Pid::new(number).unwrap();
        let wanted = ProcessFilter {
            pids: vec![pid(7)],
            names: vec!["a-very-long-name".into()],
            users: vec![1000],
            cgroups: Vec::new(),
        };
        let mut some = choice(&wanted);
        some.candidates(Path::new("/")).unwrap();
        assert!(some.matches(pid(7), &"x".into(), Some(0)));
        assert!(some.matches(pid(8), &"a-very-long-nam".into(), Some(0)), "15 bytes are kept");
        assert!(some.matches(pid(8), &"x".into(), Some(1000)));
        assert!(
            !some.matches(pid(8), &"a-very-long-na".into(), Some(0))
                && !some.matches(pid(8), &"x".into(), None)
        );
        assert!(choice(&ProcessFilter::default()).matches(pid(8), &"x".into(), None));
    }

    /// Goal: a selection by pids alone does not list all processes.
    #[test]
    fn pids_need_no_list() {
        let pids = vec![Pid::new(Pid::LIMIT).unwrap(), Pid::new(5).unwrap()];
        let mut some = choice(&ProcessFilter { pids: pids.clone(), ..ProcessFilter::default() });
        let none = tempfile::tempdir().unwrap(); // without any /proc
        assert!(some.candidates(none.path()).unwrap().into_iter().eq([pids[1], pids[0]]));
    }

    /// Goal: a group that does not exist is an error at the start.
    #[test]
    fn a_group_must_exist() {
        let cgroups = vec!["/no/such/group".into()];
        let wanted = ProcessFilter { cgroups, ..ProcessFilter::default() };
        let error = ProcessSelection::new(&wanted, Path::new("/")).unwrap_err();
        assert!(error.to_string().contains("no/such/group"), "{error}");
    }
}
