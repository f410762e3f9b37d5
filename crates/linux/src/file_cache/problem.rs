//! Reasons why a file or a part of it was skipped.

use std::io;
use std::path::PathBuf;

/// Kinds of problems that differ in their remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// The file may not be opened, or its directory not be listed.
    Unreadable,
    /// The kernel does not report to this process which pages of the file are cached.
    Untold,
    /// A file of huge pages with holes: the kernel does not report which of its pages exist.
    Holes,
    /// The file was removed after its directory was listed.
    Vanished,
    /// Cached pages were dropped before they were mapped and cannot be read again: the file was
    /// truncated, or its disk failed.
    Shrank,
    /// Any other problem.
    Failed,
}

impl ProblemKind {
    /// Returns the name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Untold => "untold",
            Self::Holes => "holes",
            Self::Vanished => "vanished",
            Self::Shrank => "shrank",
            Self::Failed => "failed",
        }
    }

    /// Returns the remedy.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Unreadable => "run as a user who may read it",
            Self::Untold => {
                "what is cached is told to its owner and who may write it; run as one of them"
            }
            Self::Holes => {
                "of huge pages the kernel does not tell which exist; fill the file (fallocate)"
            }
            Self::Vanished => "removed meanwhile; nothing to do",
            Self::Shrank => "cut short meanwhile; run again for what is left of it",
            Self::Failed => "check that its file system is well, and can map files",
        }
    }
}

/// A file or a part of it that was skipped.
#[derive(Debug)]
pub struct FileProblem {
    /// The file, or the directory that could not be listed.
    pub path: PathBuf,
    /// The kind of the problem.
    pub kind: ProblemKind,
    /// The kernel's error, if it adds something.
    pub error: Option<io::Error>,
}

impl FileProblem {
    /// Returns the problem of a file or directory that could not be opened, listed or mapped.
    pub(super) fn from_io(path: PathBuf, error: io::Error) -> Self {
        let trouble = match error.kind() {
            io::ErrorKind::PermissionDenied => ProblemKind::Unreadable,
            io::ErrorKind::NotFound => ProblemKind::Vanished,
            _ => ProblemKind::Failed,
        };
        Self { path, kind: trouble, error: Some(error) }
    }

    /// Returns the problem of pages that could not be mapped.
    pub(super) fn from_populate(path: PathBuf, error: io::Error) -> Self {
        // The kernel returns EFAULT where a read would have raised SIGBUS.
        match error.raw_os_error() {
            Some(libc::EFAULT) => Self { path, kind: ProblemKind::Shrank, error: None },
            _ => Self { path, kind: ProblemKind::Failed, error: Some(error) },
        }
    }
}
