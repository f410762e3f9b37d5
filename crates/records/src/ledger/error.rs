//! Errors of a ledger, whose messages end with the remedy.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nodeward_model::Escape as _;

use super::OperationId;
use crate::advice;
use crate::frame::Damage;

/// The reason why a ledger could not be written, listed or read. Copies of one error share their
/// source.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// No operation can begin in this directory.
    #[error("cannot keep a ledger in {}; {}", dir.escaped(), advice::write_advice(source))]
    Directory {
        /// The directory of the store.
        dir: PathBuf,
        /// The cause.
        source: Arc<io::Error>,
    },
    /// The directory cannot be locked: the lock is no regular file, or another command keeps it.
    #[error("cannot lock {}; {}", path.escaped(), advice::write_advice(source))]
    Lock {
        /// The path of the lock.
        path: PathBuf,
        /// The cause.
        source: Arc<io::Error>,
    },
    /// A record could not be written. The file was truncated to the records before.
    #[error("cannot write {}; {}", path.escaped(), advice::write_advice(source))]
    Write {
        /// The file of the operation.
        path: PathBuf,
        /// The cause.
        source: Arc<io::Error>,
    },
    /// The operation has reached its limit on bytes.
    #[error(
        "{} would outgrow {limit} bytes, so it does not tell of everything that moved; \
         move less at a time",
        path.escaped()
    )]
    Full {
        /// The file of the operation.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// The largest number of an operation is in use, which takes a file of that name made by hand.
    #[error("{} holds the largest number of an operation; remove that file", path.escaped())]
    LastId {
        /// The file of the operation.
        path: PathBuf,
    },
    /// A file or the directory could not be read.
    #[error("cannot read {}; {}", path.escaped(), advice::read_advice(source))]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: Arc<io::Error>,
    },
    /// The file is no ledger.
    #[error("{} is not a ledger; move it to another directory", path.escaped())]
    NotALedger {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by another version of nodeward.
    #[error(
        "{} is a ledger of version {found} and this nodeward reads version {known}; \
         use the nodeward that wrote it",
        path.escaped()
    )]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The version that can be read.
        known: u32,
    },
    /// The start of the file is damaged, so nothing in it can be read.
    #[error(
        "{} tells of no operation: {damage}; remove the file, and look at the memory of the \
         processes in question with `nodeward show PID`",
        path.escaped()
    )]
    NoHeader {
        /// The file.
        path: PathBuf,
        /// The damage.
        damage: Damage,
    },
    /// The store has no such operation.
    #[error("{} has no operation {id}; {}", dir.escaped(), choice(present))]
    NoSuchId {
        /// The directory of the store.
        dir: PathBuf,
        /// The requested number.
        id: OperationId,
        /// The numbers that exist, such as `3-5, 7`; empty if there are none.
        present: String,
    },
}

impl LedgerError {
    pub(super) fn read(path: &Path, source: io::Error) -> Self {
        Self::Read { path: path.to_owned(), source: source.into() }
    }
}

fn choice(present: &str) -> String {
    match present {
        "" => "it has none at all: nothing was moved with this state directory".to_owned(),
        present => format!("choose one of {present}"),
    }
}
