//! The caller of a request: the process that connected, as the kernel knows it.

use std::fs;
use std::os::unix::net::UnixStream;

use nodeward_linux::peer::Peer;
use nodeward_linux::{Credentials, HeldPid, own_credentials};
use nodeward_machine::Result;
use nodeward_model::Pid;

use crate::authority::{Refusal, Rights};

/// By this id the kernel shows all ids that a user namespace does not map.
const OVERFLOW_ID: u32 = 65_534;

/// The facts about the agent by which it tells who a caller is.
#[derive(Clone, Debug)]
pub struct AgentIdentity {
    credentials: Credentials,
    /// True if each user of the machine has a user id of its own in the agent's user namespace.
    maps_all_users: bool,
}

/// The process that connected, with its rights.
#[derive(Debug)]
pub struct Caller {
    /// The process, held so that its pid is not reused.
    pub process: HeldPid,
    /// The rights of the process.
    pub rights: Rights,
}

impl AgentIdentity {
    /// Reads the identity of this process.
    ///
    /// # Errors
    /// If /proc is not mounted.
    pub fn read() -> Result<Self> {
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let fields: Vec<&str> = map.split_ascii_whitespace().collect();
        let maps_all_users = fields == ["0", "0", "4294967295"];
        Ok(Self { credentials: own_credentials()?, maps_all_users })
    }
}

impl Caller {
    /// Returns who connected.
    ///
    /// # Errors
    /// If the process has ended, is outside of our pid namespace, or its user is one of several
    /// that look the same here.
    pub fn of(stream: &UnixStream, agent: &AgentIdentity) -> std::result::Result<Self, Refusal> {
        let Peer { process, user, group } = Peer::of(stream).map_err(|_| Refusal::CallerGone)?;
        if !agent.maps_all_users && [user, group].contains(&OVERFLOW_ID) {
            return Err(Refusal::CallerUnmapped);
        }
        let credentials = process.credentials().map_err(|_| Refusal::CallerGone)?;
        let rights = Rights::new(user, group, credentials, &agent.credentials);
        Ok(Self { process, rights })
    }

    /// Returns the user id of the caller.
    pub fn user(&self) -> u32 {
        self.rights.user
    }

    /// Returns the pid of the caller in its own pid namespace.
    pub fn own_pid(&self) -> Pid {
        let pids = &self.rights.credentials.status.pids;
        pids.last().and_then(|&pid| Pid::new(pid).ok()).unwrap_or(self.process.pid())
    }

    /// Returns the number of pid namespaces from ours to the caller's, both included.
    pub fn levels(&self) -> usize {
        self.rights.credentials.status.pids.len()
    }
}
