//! Why a file was left out, or a part of it.

use std::io;
use std::path::PathBuf;

/// Kinds of problems, as far as something different is to be done about them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The file may not be opened, or its directory not be listed.
    Unreadable,
    /// The kernel does not tell us what of the file is in memory.
    Untold,
    /// A file of huge pages with holes: the kernel tells nobody which of its pages exist.
    Holes,
    /// The file was removed after its directory was listed.
    Vanished,
    /// Cached pages went away before they were mapped, and cannot be had again: the file was cut
    /// short, or its disk failed.
    Shrank,
    /// Anything else.
    Failed,
}

impl Trouble {
    /// The name in JSON.
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

    /// What to do about it.
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

/// A file that was left out, or a part of it.
#[derive(Debug)]
pub struct Problem {
    /// The file, or the directory that could not be listed.
    pub path: PathBuf,
    /// Which kind of problem it is.
    pub trouble: Trouble,
    /// What the kernel said, if that says more.
    pub error: Option<io::Error>,
}

impl Problem {
    /// A file or directory that could not be opened, listed or mapped.
    pub(super) fn of(path: PathBuf, error: io::Error) -> Self {
        let trouble = match error.kind() {
            io::ErrorKind::PermissionDenied => Trouble::Unreadable,
            io::ErrorKind::NotFound => Trouble::Vanished,
            _ => Trouble::Failed,
        };
        Self { path, trouble, error: Some(error) }
    }

    /// Pages that could not be mapped.
    pub(super) fn of_pages(path: PathBuf, error: io::Error) -> Self {
        // EFAULT stands for the SIGBUS that a read would have raised.
        match error.raw_os_error() {
            Some(libc::EFAULT) => Self { path, trouble: Trouble::Shrank, error: None },
            _ => Self { path, trouble: Trouble::Failed, error: Some(error) },
        }
    }
}
