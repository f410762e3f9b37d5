//! Reads the privileges of a process in /proc/PID/status.

use std::path::Path;

use bstr::ByteSlice as _;
use nodeward_machine::{Error, Result};
use nodeward_model::{Cpumask, Nodemask};

use super::lines;
use crate::kernel_file;

/// A privilege, by its bit in the kernel's masks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Reading processes of other users.
    SysPtrace = 19,
    /// Reading frame numbers, using userfaultfd.
    SysAdmin = 21,
    /// Moving pages that other processes map.
    SysNice = 23,
    /// Events of perf of all processes.
    Perfmon = 38,
}

/// The privileges of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Privileges {
    /// The effective capabilities, one bit each.
    pub effective: u64,
    /// True if a seccomp filter checks its system calls; `None` on kernels without seccomp.
    pub seccomp_filtered: Option<bool>,
    /// The nodes that its cpuset allows; `None` on kernels without cpusets.
    pub memory_nodes: Option<Nodemask>,
    /// The CPUs of its affinity.
    pub cpus: Option<Cpumask>,
}

impl Privileges {
    /// Reads the privileges of the calling thread.
    pub fn of_this_thread(root: &Path) -> Result<Self> {
        let path = root.join("proc/thread-self/status");
        match kernel_file::read(&path) {
            Ok(text) => parse(&text, &path),
            Err(source) => Err(Error::Read { path, source }),
        }
    }

    /// Returns true if a capability is effective. Inside a user namespace the kernel may ignore it
    /// all the same.
    pub fn holds(&self, capability: Capability) -> bool {
        self.effective >> capability as u32 & 1 == 1
    }
}

/// Parses the bytes of a status file. `path` is for the error message only.
pub fn parse(bytes: &[u8], path: &Path) -> Result<Privileges> {
    let mut privileges = Privileges::default();
    let mut complete = false;
    for (index, line) in lines(bytes).enumerate() {
        // The name of the program need not be UTF-8; all fields that are read here are.
        let Some((name, value)) = line.to_str().ok().and_then(|line| line.split_once(':')) else {
            continue;
        };
        let value = value.trim();
        let wrong = |wanted: &str| Error::Parse {
            path: path.to_owned(),
            line: index + 1,
            expected: wanted.to_owned(),
        };
        match name {
            "CapEff" => {
                let bits = u64::from_str_radix(value, 16);
                privileges.effective = bits.map_err(|_| wrong("CapEff: and hexadecimal digits"))?;
                complete = true;
            }
            "Seccomp" => privileges.seccomp_filtered = Some(value == "2"),
            "Mems_allowed_list" => {
                let nodes = value.parse().map_err(|_| wrong("Mems_allowed_list: and nodes"))?;
                privileges.memory_nodes = Some(nodes);
            }
            "Cpus_allowed_list" => {
                let cpus = value.parse().map_err(|_| wrong("Cpus_allowed_list: and CPUs"))?;
                privileges.cpus = Some(cpus);
            }
            _ => {}
        }
    }
    let missing = || Error::Parse {
        path: path.to_owned(),
        line: lines(bytes).count() + 1,
        expected: "a line CapEff:".to_owned(),
    };
    complete.then_some(privileges).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a capability is found by its bit: 0x800000 is bit 23, CAP_SYS_NICE.
    #[test]
    fn fields_are_found_among_others() {
        let text = "Name:\tx: y\nCapInh:\t0\nCapEff:\t0000000000800000\nSeccomp:\t2\n\
                    Mems_allowed:\tf\nMems_allowed_list:\t0-1,3\n";
        let privileges = parse(text.as_bytes(), Path::new("status")).unwrap();
        assert!(privileges.holds(Capability::SysNice) && !privileges.holds(Capability::SysAdmin));
        assert_eq!(privileges.seccomp_filtered, Some(true));
        assert_eq!(privileges.memory_nodes.unwrap().to_string(), "0-1,3");
    }

    /// Goal: a field that the kernel leaves out is unknown; an invalid field is an error with its
    /// line.
    #[test]
    fn gaps_and_errors_differ() {
        let bare = parse(b"CapEff:\t0\n", Path::new("status")).unwrap();
        assert_eq!((bare.seccomp_filtered, bare.memory_nodes), (None, None));
        for (text, place) in [("Name:\tx\n", "status:2"), ("\nCapEff:\tz\n", "status:2")] {
            let error = parse(text.as_bytes(), Path::new("status")).unwrap_err().to_string();
            assert!(error.starts_with(place), "{error}");
        }
    }
}
