//! Permissions of this process on processes of other users.

use std::fs::File;
use std::path::Path;

use nodeward_model::Pid;

use crate::advice::{Attempt, Situation};
use crate::procfs::privileges::{Capability, Privileges};

/// The user and the privileges of this process.
#[derive(Clone, Copy, Debug)]
pub struct Rights {
    /// The effective user.
    pub user: u32,
    /// It may read every process's memory (CAP_SYS_PTRACE).
    pub looks_everywhere: bool,
    /// It may place every process's threads (CAP_SYS_NICE).
    pub places_everybody: bool,
}

impl Rights {
    /// Reads those of the calling thread.
    pub fn find(root: &Path) -> Self {
        let held = Privileges::of_this_thread(root).unwrap_or_default();
        Self {
            user: rustix::process::geteuid().as_raw(),
            looks_everywhere: held.holds(Capability::SysPtrace),
            places_everybody: held.holds(Capability::SysNice),
        }
    }

    /// Returns the remedy if this process may not read a process that runs as `user`, or not place
    /// its threads; `None` if it may do both.
    pub fn missing(&self, root: &Path, pid: Pid, user: Option<u32>) -> Option<String> {
        let need = |attempt| Some(Situation::find(root).need(attempt));
        let may_place = self.places_everybody || user.is_none_or(|user| user == self.user);
        if !may_place {
            return need(Attempt::Threads);
        }
        // The kernel checks the permission when the file is opened.
        let file = || File::open(root.join(format!("proc/{pid}/maps")));
        match self.looks_everywhere || file().is_ok() {
            true => None,
            false => need(Attempt::Files),
        }
    }
}
