//! What may go wrong with a ledger, in words that end with what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nodeward_model::Escape as _;

use super::Id;
use crate::advice;

/// Why a ledger could not be written, listed or read. Copies of one error share their source.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No operation can begin in this directory.
    #[error("cannot keep a ledger in {}; {}", dir.escaped(), advice::to_write(source))]
    Directory {
        /// The directory of the store.
        dir: PathBuf,
        /// Why not.
        source: Arc<io::Error>,
    },
    /// The directory cannot be locked: something else stands there, or somebody keeps the lock.
    #[error("cannot lock {}; {}", path.escaped(), advice::to_write(source))]
    Lock {
        /// The lock.
        path: PathBuf,
        /// Why not.
        source: Arc<io::Error>,
    },
    /// A record could not be written. The file was cut back to what was written before.
    #[error("cannot write {}; {}", path.escaped(), advice::to_write(source))]
    Write {
        /// The file of the operation.
        path: PathBuf,
        /// Why not.
        source: Arc<io::Error>,
    },
    /// The operation has as many bytes as it may have.
    #[error(
        "{} would outgrow {limit} bytes, so it does not tell of everything that moved; \
         move less at a time",
        path.escaped()
    )]
    Full {
        /// The file of the operation.
        path: PathBuf,
        /// The most bytes that it may have.
        limit: u64,
    },
    /// The numbers of operations have run out, which takes a file of that name put there by hand.
    #[error("{} holds the largest number of an operation; remove that file", path.escaped())]
    LastId {
        /// The file of the operation.
        path: PathBuf,
    },
    /// A file or the directory could not be read.
    #[error("cannot read {}; {}", path.escaped(), advice::to_read(source))]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// Why not.
        source: Arc<io::Error>,
    },
    /// The file holds something else.
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
    /// The beginning of the file is damaged, so nothing of it can be told.
    #[error(
        "{} tells of no operation: {damage}; remove the file, and look at the memory of the \
         processes in question with `nodeward show PID`",
        path.escaped()
    )]
    NoHeader {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        damage: Damage,
    },
    /// The store has no such operation.
    #[error("{} has no operation {id}; {}", dir.escaped(), choice(present))]
    NoSuchId {
        /// The directory of the store.
        dir: PathBuf,
        /// What was asked for.
        id: Id,
        /// What is there, such as `3-5, 7`; empty if nothing is.
        present: String,
    },
}

impl Error {
    pub(super) fn read(path: &Path, source: io::Error) -> Self {
        Self::Read { path: path.to_owned(), source: source.into() }
    }
}

/// Bytes that cannot be read, nor what stands behind them. What stands before them holds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at_byte}")]
pub struct Damage {
    /// Where the first record begins that cannot be read.
    pub at_byte: u64,
    /// What is wrong with it.
    pub what: String,
}

fn choice(present: &str) -> String {
    match present {
        "" => "it has none at all: nothing was moved with this state directory".to_owned(),
        present => format!("choose one of {present}"),
    }
}
