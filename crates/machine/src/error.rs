//! What may go wrong, in words that end with what to do.

use std::io;
use std::path::PathBuf;

use nodeward_model::{Escape as _, Pid};

/// The result of asking a machine.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a machine could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process ended, or another program runs under its pid.
    #[error("process {0} is gone")]
    Gone(Pid),
    /// The pid is a kernel thread: it has no memory of its own.
    #[error("process {0} is a kernel thread and has no memory to look at or move")]
    KernelThread(Pid),
    /// A privilege is missing.
    #[error("{what} is not permitted: {need}")]
    Denied {
        /// What was tried.
        what: String,
        /// The capability, sysctl or container setting that would help.
        need: String,
    },
    /// The kernel does not offer it.
    #[error("{what} is not available here: {why}")]
    Unsupported {
        /// What was tried.
        what: &'static str,
        /// What is missing, and where it would be found.
        why: String,
    },
    /// A system call failed in a way that has no meaning of its own here.
    #[error("{call} failed")]
    Syscall {
        /// The call, as in its manual page.
        call: &'static str,
        /// The error number.
        source: io::Error,
    },
    /// A file of /proc or /sys could not be read.
    #[error(
        "cannot read {}; check that /proc and /sys are mounted and readable here",
        path.escaped()
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file of /proc or /sys does not look as the kernel writes it.
    #[error("{}:{line}: expected {wanted}", path.escaped())]
    Parse {
        /// The file.
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        /// What should have stood there.
        wanted: String,
    },
}

impl Error {
    /// Whether the process in question has ended.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone(_))
    }

    /// Whether a privilege is missing.
    pub fn is_permission(&self) -> bool {
        matches!(self, Self::Denied { .. })
    }
}
