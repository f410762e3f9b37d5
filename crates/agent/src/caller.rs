//! Who asks: the process that connected, as the kernel knows it.

use std::fs;
use std::os::unix::net::UnixStream;

use nodeward_linux::peer::Peer;
use nodeward_linux::{Credentials, HeldPid, own_credentials};
use nodeward_machine::Result;
use nodeward_model::Pid;

use crate::authority::{Refusal, Rights};

/// By this id the kernel shows all ids that a user namespace does not map.
const OVERFLOW_ID: u32 = 65_534;

/// What the agent must know of itself to tell who a caller is.
#[derive(Clone, Debug)]
pub struct AgentIdentity {
    credentials: Credentials,
    /// Whether each user of the machine has a number of its own here.
    maps_all_users: bool,
}

/// A caller.
#[derive(Debug)]
pub struct Caller {
    /// Its process, held.
    pub process: HeldPid,
    /// Its rights.
    pub rights: Rights,
}

impl AgentIdentity {
    /// Reads it.
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

    /// Returns its user.
    pub fn user(&self) -> u32 {
        self.rights.user
    }

    /// Returns its pid as it knows it itself.
    pub fn own_pid(&self) -> Pid {
        let pids = &self.rights.credentials.status.pids;
        pids.last().and_then(|&pid| Pid::new(pid).ok()).unwrap_or(self.process.pid())
    }

    /// Returns the number of pid namespaces from ours to its own, both included.
    pub fn levels(&self) -> usize {
        self.rights.credentials.status.pids.len()
    }
}
