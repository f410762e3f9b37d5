//! The reasons for which no program can be loaded.

use std::fs;
use std::io;
use std::path::Path;

use aya::maps::MapError;
use aya::programs::ProgramError;
use aya::{Btf, BtfError, EbpfError, Endianness};
use rustix::thread::CapabilitySet;

use crate::probe::Absent;

/// The kernel's description of its types.
pub(crate) const BTF: &str = "sys/kernel/btf/vmlinux";

/// The reasons for which this kernel runs no program of ours.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// The kernel does not describe its types.
    #[error(
        "this kernel has no BTF (/sys/kernel/btf/vmlinux: {0}); \
         it needs a kernel with CONFIG_DEBUG_INFO_BTF"
    )]
    NoBtf(io::Error),
    /// The kernel is locked down.
    #[error(
        "the kernel is locked down (confidentiality), and lets no program read its memory; \
         boot without lockdown=confidentiality"
    )]
    LockedDown,
    /// The caller may not load programs.
    #[error("not permitted to load BPF programs; run as root, or with CAP_BPF and CAP_PERFMON")]
    NotPermitted,
    /// The caller has the capabilities, and the kernel refuses all the same.
    #[error(
        "the kernel refuses bpf(2) in spite of the capabilities; \
         a seccomp filter or a security module of this container or service may forbid it"
    )]
    Forbidden,
    /// There is no bpf(2).
    #[error("there is no bpf(2): the kernel lacks CONFIG_BPF_SYSCALL, or a filter hides it")]
    NoSyscall,
    /// The kernel refused a map or an object.
    #[error("the kernel refused the BPF object; please report it with the kernel's version")]
    Refused(#[source] EbpfError),
    /// The kernel has no schedulers of sched_ext.
    #[error(
        "this kernel has no sched_ext (Linux 6.12 or newer with CONFIG_SCHED_CLASS_EXT has it)"
    )]
    NoSchedExt,
    /// The kernel took the programs, but not the scheduler.
    #[error("sched_ext does not take the scheduler: {0}")]
    NotTaken(io::Error),
    /// The one program without which nothing can be told does not run.
    #[error("{0}")]
    Lacking(Absent),
}

impl From<MapError> for Unavailable {
    fn from(error: MapError) -> Self {
        Self::Refused(EbpfError::MapError(error))
    }
}

impl From<ProgramError> for Unavailable {
    fn from(error: ProgramError) -> Self {
        Self::Refused(EbpfError::ProgramError(error))
    }
}

impl Unavailable {
    /// Returns whether a privilege is missing.
    pub fn is_permission(&self) -> bool {
        matches!(self, Self::NotPermitted | Self::Forbidden)
    }

    /// Returns what the kernel's verifier said, if the kernel refused a program.
    pub fn log(&self) -> Option<&str> {
        match self {
            Self::Lacking(absent) => absent.log(),
            _ => None,
        }
    }

    /// Explains an error of the first load on the machine whose files are below `root`.
    pub(crate) fn explain(error: EbpfError, root: &Path) -> Self {
        match errno(&error) {
            Some(libc_errno::EPERM | libc_errno::EACCES) => Self::not_permitted(root),
            Some(libc_errno::ENOSYS) => Self::NoSyscall,
            _ => Self::Refused(error),
        }
    }

    /// Returns why the kernel said EPERM.
    pub(crate) fn not_permitted(root: &Path) -> Self {
        if is_locked_down(root) {
            return Self::LockedDown;
        }
        match has_capabilities() {
            true => Self::Forbidden,
            false => Self::NotPermitted,
        }
    }
}

/// Numbers of errors.
mod libc_errno {
    use rustix::io::Errno;

    pub const EPERM: i32 = Errno::PERM.raw_os_error();
    pub const EACCES: i32 = Errno::ACCESS.raw_os_error();
    pub const ENOSYS: i32 = Errno::NOSYS.raw_os_error();
}

/// Reads the kernel's types below `root`.
pub(crate) fn kernel_types(root: &Path) -> Result<Btf, Unavailable> {
    Btf::parse_file(root.join(BTF), Endianness::default()).map_err(|error| match error {
        BtfError::FileError { error, .. } => Unavailable::NoBtf(error),
        error => Unavailable::Refused(EbpfError::BtfError(error)),
    })
}

/// Returns whether the kernel hides its memory from programs.
pub(crate) fn is_locked_down(root: &Path) -> bool {
    let state = fs::read_to_string(root.join("sys/kernel/security/lockdown"));
    state.is_ok_and(|state| state.contains("[confidentiality]"))
}

fn has_capabilities() -> bool {
    let both = CapabilitySet::BPF | CapabilitySet::PERFMON;
    rustix::thread::capabilities(None).is_ok_and(|sets| {
        sets.effective.contains(both) || sets.effective.contains(CapabilitySet::SYS_ADMIN)
    })
}

/// Returns the kernel's error number, where it was a call that failed.
fn errno(error: &EbpfError) -> Option<i32> {
    match error {
        EbpfError::MapError(MapError::CreateError { io_error, .. })
        | EbpfError::BtfError(BtfError::LoadError { io_error, .. })
        | EbpfError::ProgramError(ProgramError::LoadError { io_error, .. }) => {
            io_error.raw_os_error()
        }
        EbpfError::MapError(MapError::SyscallError(error)) => error.io_error.raw_os_error(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn creation_fails_by(errno: i32) -> EbpfError {
        let io_error = io::Error::from_raw_os_error(errno);
        EbpfError::MapError(MapError::CreateError { name: "counts".to_owned(), io_error })
    }

    /// Goal: a kernel without BTF is named, with what a kernel needs.
    #[test]
    fn a_kernel_without_types_is_named() {
        let root = tempfile::tempdir().unwrap();
        let error = kernel_types(root.path()).unwrap_err();
        assert!(matches!(error, Unavailable::NoBtf(_)), "{error}");
        assert!(error.to_string().contains("CONFIG_DEBUG_INFO_BTF"), "{error}");
    }

    /// Goal: bytes that are no BTF end in an error, not in a panic.
    #[test]
    fn types_that_cannot_be_read_are_an_error() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("sys/kernel/btf")).unwrap();
        fs::write(root.path().join(BTF), b"\x9f\xeb\x01\x00\xff\xff").unwrap();
        assert!(matches!(kernel_types(root.path()), Err(Unavailable::Refused(_))));
    }

    /// Goal: EPERM under lockdown is told as lockdown, and integrity alone is none: it leaves
    /// reading.
    #[test]
    fn lockdown_is_told_from_a_lack_of_capabilities() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("sys/kernel/security")).unwrap();
        let file = root.path().join("sys/kernel/security/lockdown");
        let explain = || Unavailable::explain(creation_fails_by(libc_errno::EPERM), root.path());
        fs::write(&file, "none integrity [confidentiality]\n").unwrap();
        assert!(matches!(explain(), Unavailable::LockedDown));
        fs::write(&file, "none [integrity] confidentiality\n").unwrap();
        assert!(matches!(explain(), Unavailable::NotPermitted | Unavailable::Forbidden));
    }

    /// Goal: no bpf(2) at all and a refused object are different answers.
    #[test]
    fn a_missing_call_and_a_refusal_are_told_apart() {
        let root = tempfile::tempdir().unwrap();
        let explain = |errno| Unavailable::explain(creation_fails_by(errno), root.path());
        assert!(matches!(explain(libc_errno::ENOSYS), Unavailable::NoSyscall));
        let no_memory = rustix::io::Errno::NOMEM.raw_os_error();
        assert!(matches!(explain(no_memory), Unavailable::Refused(_)));
    }
}
