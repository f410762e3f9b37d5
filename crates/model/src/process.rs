//! Process ids and identities.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{Escape as _, Name};

/// A process id, as the kernel numbers it; always above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Pid(u32);

/// The error of a text or number that is no process id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is not a process id (a number from 1 to 4194304)", .0.escaped())]
pub struct PidError(String);

impl Pid {
    /// The largest pid on 64-bit Linux (PID_MAX_LIMIT).
    pub const LIMIT: u32 = 4_194_304;

    /// Returns the pid with this number.
    pub fn new(number: u32) -> Result<Self, PidError> {
        let valid = (1..=Self::LIMIT).contains(&number);
        if valid { Ok(Self(number)) } else { Err(PidError(number.to_string())) }
    }

    /// Returns the pid of the calling process.
    pub fn of_this_process() -> Self {
        Self(std::process::id())
    }

    /// Returns its number.
    pub fn number(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for Pid {
    type Error = PidError;
    fn try_from(number: u32) -> Result<Self, PidError> {
        Self::new(number)
    }
}

impl From<Pid> for u32 {
    fn from(pid: Pid) -> Self {
        pid.0
    }
}

impl FromStr for Pid {
    type Err = PidError;
    fn from_str(text: &str) -> Result<Self, PidError> {
        let number = text.parse().map_err(|_| PidError(text.to_owned()))?;
        Self::new(number).map_err(|_| PidError(text.to_owned()))
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The identity of a process and its program. It differs for a process that has the same pid
/// earlier or later, and for the same process after exec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Its pid.
    pub pid: Pid,
    /// Its name when it was read, as the kernel keeps it (15 bytes).
    pub name: Name,
    /// The boot of the machine, as /proc/sys/kernel/random/boot_id names it.
    pub boot_id: String,
    /// The start time, in clock ticks after the boot.
    pub started_ticks: u64,
    /// A checksum of the values that the kernel gave its program at exec, random addresses among
    /// them.
    pub auxv_checksum: u32,
}

impl ProcessIdentity {
    /// Returns true if both are the same process running the same program. Names may differ.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.pid, &self.boot_id, self.started_ticks, self.auxv_checksum)
            == (other.pid, &other.boot_id, other.started_ticks, other.auxv_checksum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_real_process_ids_are_accepted() {
        assert_eq!("17".parse::<Pid>().unwrap().number(), 17);
        for text in ["0", "-1", "", "1x", "4194305", "99999999999"] {
            assert!(text.parse::<Pid>().is_err(), "{text}");
        }
    }
}
