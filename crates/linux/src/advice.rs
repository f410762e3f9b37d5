//! Explains a refusal of the kernel and the remedy: a privilege, a seccomp filter, a user
//! namespace, or a security module. All of them end in EPERM, so the cause is found by trying.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use bstr::ByteSlice as _;
use nodeward_machine::Error;

use crate::procfs::privileges::{Capability, Privileges};
use crate::sys;

/// An operation that the kernel may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Querying or moving the pages of a process by move_pages(2).
    Pages,
    /// Moving pages that other processes map too.
    EveryonesPages,
    /// Reading /proc/PID/maps, pagemap or numa_maps.
    Files,
    /// Reading frame numbers in pagemap.
    FrameNumbers,
    /// Setting the affinity of a process's threads by sched_setaffinity(2).
    Threads,
    /// Setting a memory policy by set_mempolicy(2).
    Policy,
    /// Writing a file of /proc/PID that belongs to the user of the process.
    OwnersFile,
    /// Writing a file of /sys that belongs to root.
    RootsFile,
}

/// The runtime of the container that this process is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
    /// A pod of Kubernetes.
    Kubernetes,
    /// Another runtime.
    Other,
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Kubernetes => "kubernetes",
            Self::Other => "container",
        })
    }
}

/// The privileges of the calling thread, as far as they can explain a refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Situation {
    /// Capabilities and filters.
    pub status: Privileges,
    /// A filter blocks move_pages(2).
    pub move_pages_filtered: bool,
    /// A filter blocks set_mempolicy(2).
    pub set_mempolicy_filtered: bool,
    /// This process is in a user namespace, where capabilities do not count for the whole machine.
    pub user_namespace: bool,
    /// The container of this process.
    pub container: Option<Container>,
}

impl Situation {
    /// Reads the privileges from files under `root` (normally `/`) and with a few harmless calls.
    pub fn find(root: &Path) -> Self {
        let status = Privileges::of_this_thread(root).unwrap_or_default();
        let filtered = status.filtered == Some(true);
        Self {
            move_pages_filtered: filtered && is_filtered(&sys::move_pages_with_unknown_flag()),
            set_mempolicy_filtered: filtered && set_mempolicy_is_filtered(),
            user_namespace: in_user_namespace(root),
            container: container(root),
            status,
        }
    }

    /// Returns the remedy for an attempt that ended in EPERM (or ENOSYS, which some filters
    /// return).
    pub fn need(&self, attempt: Attempt) -> String {
        match attempt {
            Attempt::Pages | Attempt::EveryonesPages if self.move_pages_filtered => {
                self.allow("move_pages")
            }
            Attempt::Policy if self.set_mempolicy_filtered => self.allow("set_mempolicy"),
            Attempt::Policy => "choose nodes that the cpuset allows".to_owned(),
            Attempt::OwnersFile => "run as root or as the user of that process".to_owned(),
            Attempt::RootsFile if self.user_namespace => {
                "a user namespace has no root of the whole machine; run as root on the host".into()
            }
            Attempt::RootsFile => "run as root".to_owned(),
            Attempt::EveryonesPages => self.privilege(Capability::SysNice, "CAP_SYS_NICE", "root"),
            Attempt::FrameNumbers => self.privilege(Capability::SysAdmin, "CAP_SYS_ADMIN", "root"),
            Attempt::Threads => {
                let instead = "root or as the user of that process";
                self.privilege(Capability::SysNice, "CAP_SYS_NICE", instead)
            }
            Attempt::Pages | Attempt::Files => {
                let instead = "root or as the user of that process";
                self.privilege(Capability::SysPtrace, "CAP_SYS_PTRACE", instead)
            }
        }
    }

    /// Returns the error of a refused attempt. `what` completes "... is not permitted".
    pub fn denied(&self, what: impl Into<String>, attempt: Attempt) -> Error {
        Error::Denied { what: what.into(), need: self.need(attempt) }
    }

    /// Returns the way to pass a system call through a seccomp filter.
    pub fn past_filter(&self) -> &'static str {
        match self.container {
            Some(Container::Docker | Container::Podman) => {
                "start the container with --security-opt seccomp=PROFILE, where PROFILE allows it"
            }
            Some(Container::Kubernetes) => {
                "give the pod a seccompProfile of type Localhost that allows it"
            }
            Some(Container::Other) => "start the container with a seccomp profile that allows it",
            None => "allow it where the filter is set (SystemCallFilter= in a systemd unit)",
        }
    }

    fn allow(&self, call: &str) -> String {
        let how = self.past_filter();
        format!("a seccomp filter refuses {call}, whatever privileges we hold; {how}")
    }

    fn privilege(&self, capability: Capability, name: &str, instead: &str) -> String {
        let flag = name.trim_start_matches("CAP_");
        // CAP_SYS_PTRACE counts for processes of its own namespace; the other capabilities count
        // for none.
        let held = self.status.holds(capability);
        if self.user_namespace && (held || capability != Capability::SysPtrace) {
            return format!("a user namespace limits {name} to itself; run on the host");
        }
        if held {
            return format!(
                "{name} is held, so a security module (SELinux, AppArmor) said no; see its log"
            );
        }
        match self.container {
            Some(Container::Docker | Container::Podman) => {
                format!("start the container with --cap-add {flag}")
            }
            Some(Container::Kubernetes) => {
                format!("add {flag} to securityContext.capabilities of the container")
            }
            Some(Container::Other) => format!("start the container with {name}"),
            None => format!("run as {instead}, or with {name}"),
        }
    }
}

/// Returns true if the answer to a call with invalid arguments came from a filter: the kernel
/// itself would have returned EINVAL. (Kernels without the call also return ENOSYS, but the caller
/// has checked that there is a filter.)
fn is_filtered(answer: &io::Error) -> bool {
    answer.raw_os_error() != Some(libc::EINVAL)
}

fn set_mempolicy_is_filtered() -> bool {
    let nonsense = 0x7fff;
    sys::mempolicy::set_mempolicy(nonsense, &[]).is_err_and(|answer| is_filtered(&answer))
}

/// Only the initial namespace maps every user id to itself.
fn in_user_namespace(root: &Path) -> bool {
    let map = fs::read_to_string(root.join("proc/self/uid_map"));
    map.is_ok_and(|map| !map.split_whitespace().eq(["0", "0", "4294967295"]))
}

fn container(root: &Path) -> Option<Container> {
    let groups = fs::read(root.join("proc/self/cgroup")).unwrap_or_default();
    let tells = |name: &str| groups.contains_str(name);
    let there = |path: &str| root.join(path).exists();
    if tells("kubepods") || there("var/run/secrets/kubernetes.io") {
        Some(Container::Kubernetes)
    } else if there("run/.containerenv") || tells("libpod") {
        Some(Container::Podman)
    } else if there(".dockerenv") || tells("/docker/") || tells("/docker-") {
        Some(Container::Docker)
    } else {
        let other = there("run/systemd/container") || tells("/lxc") || tells("containerd");
        other.then_some(Container::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(situation: &Situation, attempt: Attempt, words: &str) {
        let need = situation.need(attempt);
        assert!(need.contains(words), "{attempt:?}: {need}");
    }

    /// Goal: each cause of EPERM gives the remedy that helps against it.
    #[test]
    fn causes_are_told_apart() {
        let plain = Situation::default();
        check(&plain, Attempt::EveryonesPages, "run as root, or with CAP_SYS_NICE");
        check(&plain, Attempt::Threads, "the user of that process, or with CAP_SYS_NICE");
        check(&plain, Attempt::Files, "the user of that process, or with CAP_SYS_PTRACE");

        let docker = Situation { container: Some(Container::Docker), ..Situation::default() };
        check(&docker, Attempt::EveryonesPages, "--cap-add SYS_NICE");
        let filtered = Situation { move_pages_filtered: true, ..docker };
        check(&filtered, Attempt::EveryonesPages, "--security-opt seccomp=PROFILE");
        check(&filtered, Attempt::Files, "--cap-add SYS_PTRACE"); // the filter is not to blame

        let status = Privileges { effective: u64::MAX, ..Privileges::default() };
        let root = Situation { status, ..Situation::default() };
        check(&root, Attempt::Pages, "security module");

        let rootless = Situation { user_namespace: true, ..root };
        check(&rootless, Attempt::Pages, "run on the host");
        let nobody = Situation { status: Privileges::default(), ..rootless };
        check(&nobody, Attempt::EveryonesPages, "run on the host");
        check(&nobody, Attempt::Pages, "run as root or as the user of that process");
        check(&nobody, Attempt::RootsFile, "on the host");
        check(&plain, Attempt::RootsFile, "run as root");
        check(&plain, Attempt::OwnersFile, "the user of that process");
    }

    /// Goal: containers are recognized by their files; a bare machine has none of them.
    #[test]
    fn containers_leave_traces() {
        for (path, text, expected) in [
            (".dockerenv", "", Some(Container::Docker)),
            ("run/.containerenv", "", Some(Container::Podman)),
            ("proc/self/cgroup", "0::/kubepods.slice/pod1\n", Some(Container::Kubernetes)),
            ("proc/self/cgroup", "0::/system.slice/docker.service\n", None),
            ("proc/self/cgroup", "0::/system.slice/docker-12ab.scope\n", Some(Container::Docker)),
            ("proc/self/cgroup", "0::/init.scope\n", None),
        ] {
            let root = tempfile::tempdir().unwrap();
            let file = root.path().join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
            assert_eq!(container(root.path()), expected, "{path} {text}");
        }
    }
}
