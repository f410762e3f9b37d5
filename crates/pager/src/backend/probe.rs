//! Probes which methods work here. Each is tried on pages of our own; nothing is concluded from a
//! kernel version.

use std::fmt;
use std::path::Path;

use nodeward_linux::confinement::{Confinement, Container};
use rustix::io::Errno;

use super::methods::Backend;
use crate::error::{Result, no_descriptor, system};
use crate::sys::{FEATURE_MOVE, FEATURE_THREAD_ID, Uffd, try_move, try_remap};

/// The userfaultfd features that this process can use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UffdCapabilities {
    /// Faults that our userfaultfd sees.
    pub faults: VisibleFaults,
    /// Fault messages carry the id of the waiting thread.
    pub thread_id: bool,
    /// UFFDIO_MOVE has moved pages out and back in a trial.
    pub can_move: bool,
    /// MREMAP_DONTUNMAP has taken pages out and UFFDIO_COPY has brought them back, in a trial.
    pub can_remap: bool,
    /// The reason why not all faults are seen.
    faults_shortfall: Option<Shortfall>,
}

/// Faults that can be handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisibleFaults {
    /// All of them.
    All,
    /// Faults of user code only. A system call that meets one fails with EFAULT.
    UserCode,
    /// None.
    None,
}

/// A missing feature and its remedy: two fragments without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The missing feature.
    pub reason: String,
    /// The one thing to do about it.
    pub remedy: String,
}

impl Shortfall {
    fn new(why: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { reason: why.into(), remedy: fix.into() }
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.reason, self.remedy)
    }
}

impl UffdCapabilities {
    /// Tries everything. Cost: less than a millisecond.
    ///
    /// # Errors
    /// If no file descriptor is left for the trials.
    pub fn probe() -> Result<Self> {
        Ok(probe_userfaultfd()?.0)
    }

    /// Returns the method by which pages move. `assume_no_syscalls`: see [`crate::PagerOptions`].
    pub fn backend(&self, assume_no_syscalls: bool) -> Backend {
        let sees_enough = match self.faults {
            VisibleFaults::All => true,
            VisibleFaults::UserCode => assume_no_syscalls,
            VisibleFaults::None => false,
        };
        match (sees_enough, self.can_move, self.can_remap) {
            (true, true, _) => Backend::Move,
            (true, false, true) => Backend::Remap,
            _ => Backend::Kernel,
        }
    }

    /// Returns the reason for which the method is not a faster one, and the remedy; `None` if it is
    /// the fastest.
    pub fn shortfall(&self, assume_no_syscalls: bool) -> Option<Shortfall> {
        let newer = "boot Linux 6.8 or later";
        match (self.backend(assume_no_syscalls), &self.faults_shortfall) {
            (Backend::Move, _) => None,
            (Backend::Remap, _) => Some(Shortfall::new("UFFDIO_MOVE does not work here", newer)),
            (Backend::Kernel, Some(blind)) => Some(blind.clone()),
            (Backend::Kernel, None) => {
                let why = "neither UFFDIO_MOVE nor MREMAP_DONTUNMAP works here";
                Some(Shortfall::new(why, newer))
            }
        }
    }
}

/// The result of [`probe`].
#[derive(Debug)]
pub struct ProbeResult {
    /// The method by which pages move.
    pub backend: Backend,
    /// The userfaultfd, unless only the kernel moves pages: close-on-exec, non-blocking, with
    /// UFFDIO_MOVE and thread ids as far as the kernel has them.
    pub uffd: Option<Uffd>,
    /// The reason why it is not a faster method, and what to do.
    pub why_not_faster: Option<String>,
}

/// Chooses the method. The two options are those of [`crate::PagerOptions`].
pub fn probe(assume_no_syscalls: bool, kernel_only: bool) -> Result<ProbeResult> {
    if kernel_only {
        let why = "the program asked for the kernel's moves only; leave `kernel_only` out";
        return Ok(ProbeResult {
            backend: Backend::Kernel,
            uffd: None,
            why_not_faster: Some(why.into()),
        });
    }
    let (capabilities, uffd) = probe_userfaultfd()?;
    let backend = capabilities.backend(assume_no_syscalls);
    let why_not_faster = capabilities.shortfall(assume_no_syscalls).map(|s| s.to_string());
    tracing::debug!(?capabilities, backend = backend.name(), "probed");
    Ok(ProbeResult { backend, uffd: uffd.filter(|_| backend != Backend::Kernel), why_not_faster })
}

fn probe_userfaultfd() -> Result<(UffdCapabilities, Option<Uffd>)> {
    let opened = open()?;
    let (faults, blind) = match &opened {
        Opened::Full(_) => (VisibleFaults::All, None),
        Opened::UserCode(refused) => (VisibleFaults::UserCode, Some(refused.shortfall())),
        Opened::Unavailable(refused) => (VisibleFaults::None, Some(refused.shortfall())),
    };
    let mut capabilities = UffdCapabilities {
        faults,
        thread_id: false,
        can_move: false,
        can_remap: false,
        faults_shortfall: blind,
    };
    let Some((uffd, features)) = negotiate_features(&opened)? else {
        return Ok((capabilities, None));
    };
    capabilities.thread_id = features & FEATURE_THREAD_ID != 0;
    capabilities.can_move = features & FEATURE_MOVE != 0 && works(|| try_move(&uffd));
    capabilities.can_remap = works(|| try_remap(&uffd));
    Ok((capabilities, Some(uffd)))
}

/// Repeats a trial: a fork in another thread, or compaction, may disturb one, but not three in a
/// row.
fn works(trial: impl Fn() -> std::result::Result<(), Errno>) -> bool {
    (0..3).any(|_| trial().inspect_err(|errno| tracing::debug!(%errno, "a trial failed")).is_ok())
}

/// A way to open a userfaultfd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenMethod {
    Syscall,
    Device,
    SyscallUserMode,
}

impl OpenMethod {
    fn open(self) -> std::result::Result<Uffd, Errno> {
        match self {
            Self::Syscall => Uffd::open(false),
            Self::Device => Uffd::open_by_device(),
            Self::SyscallUserMode => Uffd::open(true),
        }
    }
}

/// The most capable userfaultfd that could be opened.
enum Opened {
    Full(OpenMethod),
    UserCode(OpenRefusals),
    Unavailable(OpenRefusals),
}

/// The error of each attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OpenRefusals {
    by_call: Errno,
    by_device: Errno,
    /// `None` if that succeeds.
    for_user_code: Option<Errno>,
}

fn open() -> Result<Opened> {
    let attempt = |way: OpenMethod| match way.open() {
        Ok(_) => Ok(None),
        Err(errno) => no_descriptor("userfaultfd", &errno.into()).map_or(Ok(Some(errno)), Err),
    };
    let Some(by_call) = attempt(OpenMethod::Syscall)? else {
        return Ok(Opened::Full(OpenMethod::Syscall));
    };
    let Some(by_device) = attempt(OpenMethod::Device)? else {
        return Ok(Opened::Full(OpenMethod::Device));
    };
    let for_user_code = attempt(OpenMethod::SyscallUserMode)?;
    let refused = OpenRefusals { by_call, by_device, for_user_code };
    Ok(match for_user_code {
        None => Opened::UserCode(refused),
        Some(_) => Opened::Unavailable(refused),
    })
}

/// Opens a userfaultfd with the available features. A descriptor agrees on features only once, so a
/// first one is opened to ask for them.
fn negotiate_features(opened: &Opened) -> Result<Option<(Uffd, u64)>> {
    let way = match opened {
        Opened::Full(way) => *way,
        Opened::UserCode(_) => OpenMethod::SyscallUserMode,
        Opened::Unavailable(_) => return Ok(None),
    };
    let agreed = || {
        let offered = way.open()?.api(0)?;
        let features = offered & (FEATURE_MOVE | FEATURE_THREAD_ID);
        let uffd = way.open()?;
        uffd.api(features)?;
        Ok((uffd, features))
    };
    agreed().map(Some).map_err(|errno: Errno| system("UFFDIO_API")(errno.into()))
}

impl OpenRefusals {
    /// Returns why not all faults are seen, and the one thing to do.
    fn shortfall(&self) -> Shortfall {
        // The file exists wherever the kernel was built with userfaultfd (Linux 5.2).
        let built_in = Path::new("/proc/sys/vm/unprivileged_userfaultfd").exists();
        self.shortfall_in(built_in, &Confinement::detect(Path::new("/")))
    }

    fn shortfall_in(&self, built_in: bool, situation: &Confinement) -> Shortfall {
        let filtered = situation.privileges.seccomp_filtered == Some(true);
        match self.for_user_code {
            None => self.unprivileged(situation),
            Some(Errno::NOSYS) if !(built_in && filtered) => Shortfall::new(
                "this kernel has no userfaultfd",
                "boot a kernel with CONFIG_USERFAULTFD",
            ),
            // The kernel itself never refuses a userfaultfd for faults of user code only.
            Some(Errno::PERM | Errno::NOSYS) if filtered => Shortfall::new(
                "a seccomp filter refuses userfaultfd, whatever privileges we hold",
                situation.filter_remedy(),
            ),
            // Before Linux 5.11 there was only one kind, for privileged processes.
            Some(Errno::INVAL) => self.unprivileged(situation),
            Some(errno) => Shortfall::new(
                format!("userfaultfd is refused ({errno}), by a security module it seems"),
                "look for it in the module's log and allow it there",
            ),
        }
    }

    /// Prefers the device: it opens userfaultfd to a group, and gives no other privilege.
    fn unprivileged(&self, situation: &Confinement) -> Shortfall {
        let why = "faults inside system calls are only shown to the privileged";
        let fix = match (situation.container, self.by_device) {
            (Some(Container::Docker | Container::Podman), _) => {
                "start the container with --device /dev/userfaultfd, and as a user who may open it"
            }
            (Some(_), _) => "give the container /dev/userfaultfd, and a user who may open it",
            (None, Errno::ACCESS | Errno::PERM) => {
                "install packaging/60-nodeward-userfaultfd.rules and join the group nodeward"
            }
            (None, _) => "set the sysctl vm.unprivileged_userfaultfd=1",
        };
        Shortfall::new(why, fix)
    }
}

#[cfg(test)]
mod tests {
    use nodeward_linux::procfs::privileges::Privileges;

    use super::*;

    fn situation(filtered: bool, container: Option<Container>) -> Confinement {
        let status = Privileges { seccomp_filtered: Some(filtered), ..Privileges::default() };
        Confinement { privileges: status, container, ..Confinement::default() }
    }

    fn refused(by_device: Errno, for_user_code: Option<Errno>) -> OpenRefusals {
        OpenRefusals { by_call: for_user_code.unwrap_or(Errno::PERM), by_device, for_user_code }
    }

    /// Goal: each refusal leads to its one cause and its one remedy.
    #[test]
    fn causes_are_told_apart() {
        let docker = Some(Container::Docker);
        for (device, user, built_in, filtered, container, why, fix) in [
            (Errno::ACCESS, None, true, false, None, "only shown to the privileged", "60-nodeward"),
            (Errno::NOENT, None, true, false, None, "only shown to the privileged", "sysctl vm."),
            (Errno::NOENT, None, true, true, docker, "only shown", "--device /dev/userfaultfd"),
            (Errno::NOENT, Some(Errno::INVAL), true, false, None, "only shown", "sysctl vm."),
            (Errno::NOENT, Some(Errno::NOSYS), false, true, docker, "no userfaultfd", "CONFIG_"),
            (Errno::NOENT, Some(Errno::NOSYS), true, true, docker, "seccomp", "seccomp=PROFILE"),
            (Errno::ACCESS, Some(Errno::PERM), true, true, None, "seccomp", "SystemCallFilter="),
            (Errno::ACCESS, Some(Errno::ACCESS), true, true, None, "security module", "log"),
            (Errno::ACCESS, Some(Errno::PERM), true, false, None, "security module", "log"),
        ] {
            let told =
                refused(device, user).shortfall_in(built_in, &situation(filtered, container));
            assert!(
                told.reason.contains(why) && told.remedy.contains(fix),
                "{device} {user:?}: {told}"
            );
        }
    }

    fn capabilities(faults: VisibleFaults, can_move: bool, can_remap: bool) -> UffdCapabilities {
        let blind = (faults != VisibleFaults::All).then(|| Shortfall::new("blind", "see"));
        UffdCapabilities { faults, thread_id: true, can_move, can_remap, faults_shortfall: blind }
    }

    /// Goal: the chosen method is the fastest safe one, and only the fastest has no shortfall.
    #[test]
    fn the_fastest_safe_road_is_taken() {
        use VisibleFaults::{All, None, UserCode};
        for (faults, can_move, can_remap, assume, backend, why) in [
            (All, true, true, false, Backend::Move, ""),
            (All, false, true, false, Backend::Remap, "UFFDIO_MOVE"),
            (All, false, false, true, Backend::Kernel, "neither"),
            (UserCode, true, true, false, Backend::Kernel, "blind"),
            (UserCode, true, true, true, Backend::Move, ""),
            (UserCode, false, true, true, Backend::Remap, "UFFDIO_MOVE"),
            (None, false, false, true, Backend::Kernel, "blind"),
        ] {
            let capabilities = capabilities(faults, can_move, can_remap);
            assert_eq!(capabilities.backend(assume), backend, "{capabilities:?}");
            let told = capabilities.shortfall(assume).map(|s| s.to_string()).unwrap_or_default();
            assert!(told.contains(why) && told.is_empty() == why.is_empty(), "{told}");
        }
    }

    /// Goal: whatever this kernel has, the method comes with what it needs, and both functions
    /// agree.
    #[test]
    fn a_road_is_found_here() {
        let found = probe(false, false).unwrap();
        let capabilities = UffdCapabilities::probe().unwrap();
        eprintln!("{found:?} {capabilities:?}");
        assert_eq!(found.uffd.is_some(), found.backend != Backend::Kernel);
        assert_eq!(found.backend, capabilities.backend(false));
        assert_eq!(found.why_not_faster.is_none(), found.backend == Backend::Move);
    }

    /// Goal: a program that asks for the kernel's moves gets nothing else.
    #[test]
    fn the_kernel_can_be_asked_for() {
        let found = probe(true, true).unwrap();
        assert!(found.uffd.is_none() && found.backend == Backend::Kernel);
        assert!(found.why_not_faster.unwrap().contains("kernel_only"));
    }
}
