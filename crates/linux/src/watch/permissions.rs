//! Permissions of this process on processes of other users.

use std::fs::File;
use std::path::Path;

use nodeward_model::Pid;

use crate::confinement::{Confinement, PrivilegedAction};
use crate::procfs::privileges::{Capability, Privileges};

/// The user and the privileges of this process.
#[derive(Clone, Copy, Debug)]
pub struct WatchPermissions {
    /// The effective user.
    pub user: u32,
    /// It may read every process's memory (CAP_SYS_PTRACE).
    pub can_read_all: bool,
    /// It may place every process's threads (CAP_SYS_NICE).
    pub can_set_all_affinities: bool,
}

impl WatchPermissions {
    /// Reads those of the calling thread.
    pub fn detect(root: &Path) -> Self {
        let held = Privileges::of_this_thread(root).unwrap_or_default();
        Self {
            user: rustix::process::geteuid().as_raw(),
            can_read_all: held.holds(Capability::SysPtrace),
            can_set_all_affinities: held.holds(Capability::SysNice),
        }
    }

    /// Returns the remedy if this process may not read a process that runs as `user`, or not place
    /// its threads; `None` if it may do both.
    pub fn missing_privilege(&self, root: &Path, pid: Pid, user: Option<u32>) -> Option<String> {
        let need = |attempt| Some(Confinement::detect(root).remedy(attempt));
        let may_place = self.can_set_all_affinities || user.is_none_or(|user| user == self.user);
        if !may_place {
            return need(PrivilegedAction::Threads);
        }
        // The kernel checks the permission when the file is opened.
        let file = || File::open(root.join(format!("proc/{pid}/maps")));
        match self.can_read_all || file().is_ok() {
            true => None,
            false => need(PrivilegedAction::Files),
        }
    }
}
