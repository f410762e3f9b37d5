//! Explains a refusal of the kernel and the remedy: a privilege, a seccomp filter, a user
//! namespace, or a security module. All of them end in EPERM, so the cause is found by trying.

use std::fmt;
use std::io;
use std::path::Path;

use bstr::ByteSlice as _;
use nodeward_machine::Error;

use crate::kernel_file;
use crate::procfs::privileges::{Capability, Privileges};
use crate::sys;

/// An operation that the kernel may refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrivilegedAction {
    /// Querying or moving the pages of a process by move_pages(2).
    Pages,
    /// Moving pages that other processes map too.
    SharedPages,
    /// Reading /proc/PID/maps, pagemap or numa_maps.
    Files,
    /// Reading frame numbers in pagemap.
    FrameNumbers,
    /// Setting the affinity of a process's threads by sched_setaffinity(2).
    Threads,
    /// Setting a memory policy by set_mempolicy(2).
    Policy,
    /// Writing a file of /proc/PID that belongs to the user of the process.
    OwnerFile,
    /// Writing a file of /sys that belongs to root.
    RootFile,
    /// Reading the memory of a process in /proc/PID/mem.
    Memory,
    /// Opening an event of perf by perf_event_open(2).
    PerfEvent,
    /// The same for all processes.
    PerfEventOfAll,
    /// Writing a file of /proc/sys that takes CAP_SYS_ADMIN.
    Sysctl,
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
pub struct Confinement {
    /// Capabilities and filters.
    pub privileges: Privileges,
    /// A filter blocks move_pages(2).
    pub move_pages_filtered: bool,
    /// A filter blocks set_mempolicy(2).
    pub set_mempolicy_filtered: bool,
    /// A filter blocks perf_event_open(2).
    pub perf_event_open_filtered: bool,
    /// `kernel.perf_event_paranoid`: from 1 on only privileged users observe whole CPUs; from 3 on,
    /// in kernels of Debian and Ubuntu, anything.
    pub perf_event_paranoid: Option<i32>,
    /// `kernel.yama.ptrace_scope`: from 1 on a user may read the memory of own children only.
    pub ptrace_scope: Option<i32>,
    /// This process is in a user namespace, where capabilities do not count for the whole machine.
    pub user_namespace: bool,
    /// The container of this process.
    pub container: Option<Container>,
}

impl Confinement {
    /// Reads the privileges from files under `root` (normally `/`) and with a few harmless calls.
    pub fn detect(root: &Path) -> Self {
        let status = Privileges::of_this_thread(root).unwrap_or_default();
        let filtered = status.seccomp_filtered == Some(true);
        Self {
            move_pages_filtered: filtered && is_filtered(&sys::move_pages_with_unknown_flag()),
            set_mempolicy_filtered: filtered && set_mempolicy_is_filtered(),
            perf_event_open_filtered: filtered && is_filtered(&sys::perf_event_with_unknown_flag()),
            perf_event_paranoid: setting(root, "perf_event_paranoid"),
            ptrace_scope: setting(root, "yama/ptrace_scope"),
            user_namespace: in_user_namespace(root),
            container: container(root),
            privileges: status,
        }
    }

    /// Returns the remedy for an attempt that ended in EPERM (or ENOSYS, which some filters
    /// return).
    pub fn remedy(&self, attempt: PrivilegedAction) -> String {
        match attempt {
            PrivilegedAction::Pages | PrivilegedAction::SharedPages if self.move_pages_filtered => {
                self.allow_in_filter("move_pages")
            }
            PrivilegedAction::Policy if self.set_mempolicy_filtered => {
                self.allow_in_filter("set_mempolicy")
            }
            PrivilegedAction::PerfEvent | PrivilegedAction::PerfEventOfAll
                if self.perf_event_open_filtered =>
            {
                self.allow_in_filter("perf_event_open")
            }
            PrivilegedAction::Policy => "choose nodes that the cpuset allows".to_owned(),
            PrivilegedAction::OwnerFile => "run as root or as the user of that process".to_owned(),
            PrivilegedAction::RootFile if self.user_namespace => {
                "a user namespace has no root of the whole machine; run as root on the host".into()
            }
            PrivilegedAction::RootFile => "run as root".to_owned(),
            PrivilegedAction::Sysctl if self.user_namespace || self.container.is_some() => {
                "a container has no sysctls of the whole machine; run on the host".to_owned()
            }
            PrivilegedAction::Sysctl => {
                "run as root with CAP_SYS_ADMIN, in a unit of systemd with \
                 ProtectKernelTunables=no and that capability in its CapabilityBoundingSet="
                    .to_owned()
            }
            PrivilegedAction::SharedPages => {
                self.privilege_remedy(Capability::SysNice, "CAP_SYS_NICE", "root")
            }
            PrivilegedAction::FrameNumbers => {
                self.privilege_remedy(Capability::SysAdmin, "CAP_SYS_ADMIN", "root")
            }
            PrivilegedAction::Threads => {
                let instead = "root or as the user of that process";
                self.privilege_remedy(Capability::SysNice, "CAP_SYS_NICE", instead)
            }
            PrivilegedAction::PerfEvent => self.perfmon_remedy(2),
            PrivilegedAction::PerfEventOfAll => self.perfmon_remedy(0),
            PrivilegedAction::Pages | PrivilegedAction::Files => self.ptrace_remedy(),
            PrivilegedAction::Memory => {
                or_lower(self.ptrace_remedy(), "kernel.yama.ptrace_scope", self.ptrace_scope, 0)
            }
        }
    }

    /// Returns the error of a refused attempt. `what` completes "... is not permitted".
    pub fn denied(&self, what: impl Into<String>, attempt: PrivilegedAction) -> Error {
        Error::Denied { action: what.into(), remedy: self.remedy(attempt) }
    }

    /// Returns the way to pass a system call through a seccomp filter.
    pub fn filter_remedy(&self) -> &'static str {
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

    fn allow_in_filter(&self, call: &str) -> String {
        let how = self.filter_remedy();
        format!("a seccomp filter refuses {call}, whatever privileges we hold; {how}")
    }

    fn ptrace_remedy(&self) -> String {
        let instead = "root or as the user of that process";
        self.privilege_remedy(Capability::SysPtrace, "CAP_SYS_PTRACE", instead)
    }

    /// Returns the remedy against a refusal of perf, which needs no privilege up to this setting of
    /// the kernel.
    fn perfmon_remedy(&self, paranoid_max: i32) -> String {
        let privilege = self.privilege_remedy(Capability::Perfmon, "CAP_PERFMON", "root");
        let setting = "kernel.perf_event_paranoid";
        or_lower(privilege, setting, self.perf_event_paranoid, paranoid_max)
    }

    fn privilege_remedy(&self, capability: Capability, name: &str, instead: &str) -> String {
        let flag = name.trim_start_matches("CAP_");
        // CAP_SYS_PTRACE counts for processes of its own namespace; the other capabilities count
        // for none.
        let held = self.privileges.holds(capability);
        if self.user_namespace && (held || capability != Capability::SysPtrace) {
            return format!("a user namespace limits {name} to itself; run on the host");
        }
        if held {
            return format!(
                "{name} is held; perhaps a security module (SELinux, AppArmor) said no: see its log"
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

/// Adds to a remedy that a setting of the kernel may be lowered, if it is too high.
fn or_lower(remedy: String, name: &str, value: Option<i32>, highest: i32) -> String {
    match value {
        Some(value) if value > highest => {
            format!("{remedy}, or set {name} to {highest} (it is {value})")
        }
        _ => remedy,
    }
}

/// Reads a setting of the kernel; `None` where there is no such setting.
fn setting(root: &Path, name: &str) -> Option<i32> {
    let text = kernel_file::read_to_string(root.join("proc/sys/kernel").join(name)).ok()?;
    text.trim().parse().ok()
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
    let map = kernel_file::read_to_string(root.join("proc/self/uid_map"));
    map.is_ok_and(|map| !map.split_whitespace().eq(["0", "0", "4294967295"]))
}

fn container(root: &Path) -> Option<Container> {
    let groups = kernel_file::read(root.join("proc/self/cgroup")).unwrap_or_default();
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
    use std::fs;

    use super::*;

    fn check(situation: &Confinement, attempt: PrivilegedAction, words: &str) {
        let need = situation.remedy(attempt);
        assert!(need.contains(words), "{attempt:?}: {need}");
    }

    /// Goal: each cause of EPERM gives the remedy that helps against it.
    #[test]
    fn causes_are_told_apart() {
        let plain = Confinement::default();
        check(&plain, PrivilegedAction::SharedPages, "run as root, or with CAP_SYS_NICE");
        check(&plain, PrivilegedAction::Threads, "the user of that process, or with CAP_SYS_NICE");
        check(&plain, PrivilegedAction::Files, "the user of that process, or with CAP_SYS_PTRACE");

        let docker = Confinement { container: Some(Container::Docker), ..Confinement::default() };
        check(&docker, PrivilegedAction::SharedPages, "--cap-add SYS_NICE");
        let filtered = Confinement { move_pages_filtered: true, ..docker };
        check(&filtered, PrivilegedAction::SharedPages, "--security-opt seccomp=PROFILE");
        let no_perf = Confinement { perf_event_open_filtered: true, ..Confinement::default() };
        check(&no_perf, PrivilegedAction::PerfEvent, "filter refuses perf_event_open");
        // The filter is not to blame.
        check(&filtered, PrivilegedAction::Files, "--cap-add SYS_PTRACE");

        let status = Privileges { effective: u64::MAX, ..Privileges::default() };
        let root = Confinement { privileges: status, ..Confinement::default() };
        check(&root, PrivilegedAction::Pages, "security module");

        let rootless = Confinement { user_namespace: true, ..root };
        check(&rootless, PrivilegedAction::Pages, "run on the host");
        let nobody = Confinement { privileges: Privileges::default(), ..rootless };
        check(&nobody, PrivilegedAction::SharedPages, "run on the host");
        check(&nobody, PrivilegedAction::Pages, "run as root or as the user of that process");
        check(&nobody, PrivilegedAction::RootFile, "on the host");
        check(&plain, PrivilegedAction::RootFile, "run as root");
        check(&nobody, PrivilegedAction::Sysctl, "on the host");
        check(&filtered, PrivilegedAction::Sysctl, "on the host");
        check(&plain, PrivilegedAction::Sysctl, "root with CAP_SYS_ADMIN");
        check(&plain, PrivilegedAction::OwnerFile, "the user of that process");
    }

    /// Goal: a setting of the kernel is named where it is to blame, with its value, and only there.
    #[test]
    fn settings_of_the_kernel_are_named() {
        let with = |paranoid, scope| Confinement {
            perf_event_paranoid: Some(paranoid),
            ptrace_scope: Some(scope),
            ..Confinement::default()
        };
        let (strict, usual) = (with(3, 1), with(2, 0));
        let lower = "or set kernel.perf_event_paranoid to 2 (it is 3)";
        check(&strict, PrivilegedAction::PerfEvent, lower);
        check(&strict, PrivilegedAction::Memory, "or set kernel.yama.ptrace_scope to 0 (it is 1)");
        let plain = "run as root, or with CAP_PERFMON";
        assert_eq!(usual.remedy(PrivilegedAction::PerfEvent), plain);
        assert_eq!(usual.remedy(PrivilegedAction::Memory), usual.remedy(PrivilegedAction::Files));
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
