//! Errors, whose messages end with the remedy.

use std::io;
use std::path::PathBuf;

use nodeward_model::{Escape as _, Pid};

/// The result of an operation of a machine.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a machine could not do an operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The process exited, or another program runs under its pid.
    #[error("process {0} is gone")]
    Gone(Pid),
    /// The pid is a kernel thread: it has no memory of its own.
    #[error("process {0} is a kernel thread and has no memory to look at or move")]
    KernelThread(Pid),
    /// A privilege is missing.
    #[error("{action} is not permitted: {remedy}")]
    Denied {
        /// The operation that was tried.
        action: String,
        /// The capability, sysctl or container setting that would help.
        remedy: String,
    },
    /// The kernel does not offer the feature.
    #[error("{action} is not available here: {reason}")]
    Unsupported {
        /// The operation that was tried.
        action: &'static str,
        /// The missing feature, and where to find it.
        reason: String,
    },
    /// A system call failed with an error that has no variant of its own.
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
        /// The cause.
        source: io::Error,
    },
    /// A file of /proc or /sys does not have the format that the kernel writes.
    #[error("{}:{line}: expected {expected}", path.escaped())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The expected content.
        expected: String,
    },
}

impl Error {
    /// Returns true if the process in question has exited.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone(_))
    }

    /// Returns true if a privilege is missing.
    pub fn is_permission(&self) -> bool {
        matches!(self, Self::Denied { .. })
    }
}
