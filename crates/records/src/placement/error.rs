//! Errors of placement files, whose messages end with the remedy.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use nodeward_model::Escape as _;

/// The most bytes of a file: about four million runs of pages.
pub const FILE_BYTES_MAX: u64 = 64 << 20;

/// The reason why a placement could not be written or read.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlacementFileError {
    /// The file could not be written; what was there is unchanged.
    #[error("cannot write {}; choose another file", path.escaped())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Arc<io::Error>,
    },
    /// The file could not be read.
    #[error("cannot read {}", path.escaped())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Arc<io::Error>,
    },
    /// Another file is at the path.
    #[error("{} is there and is no placement; choose another name", path.escaped())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The memory is in more runs than a file may tell.
    #[error(
        "the placement would take more than {FILE_BYTES_MAX} bytes, because neighbouring pages are \
         on different nodes; save fewer processes, or less of them (--only), in {}",
        path.escaped()
    )]
    TooScattered {
        /// The file.
        path: PathBuf,
    },
    /// The file is larger than any that nodeward writes.
    #[error(
        "{} has more than {FILE_BYTES_MAX} bytes, and no placement has; name a file that nodeward \
         placement save wrote",
        path.escaped()
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The file ends too early.
    #[error("{} is cut short; save the placement again", path.escaped())]
    CutShort {
        /// The file.
        path: PathBuf,
    },
    /// The file is no placement.
    #[error(
        "{} is no placement; name a file that nodeward placement save wrote",
        path.escaped()
    )]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by another version of nodeward.
    #[error(
        "{} has version {} and this nodeward reads version {known}; use the nodeward that wrote \
         it, or save the placement again",
        path.escaped(),
        found.escaped()
    )]
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: String,
        /// The version that can be read.
        known: &'static str,
    },
    /// The file says something that cannot be.
    #[error(
        "{} is wrong ({}); save the placement again, or correct the file",
        path.escaped(),
        description.escaped()
    )]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        description: String,
    },
}
