//! The reasons for which a call about groups does nothing.

use std::io;
use std::path::PathBuf;

use nodeward_model::{Escape as _, GroupError};

/// The reasons for which the agent did not do what was asked. Nothing was done, unless the error is
/// [`GroupFailure::Lost`].
#[derive(Debug, thiserror::Error)]
pub enum GroupFailure {
    /// A name, a home or memory that is none.
    #[error(transparent)]
    Invalid(#[from] GroupError),
    /// Memory that no address space has.
    #[error("{bytes} bytes from {start:#x} are no memory; give its address and its length")]
    NoMemory {
        /// The first address.
        start: usize,
        /// The length in bytes.
        bytes: usize,
    },
    /// Nobody answers at the socket.
    #[error(
        "no agent answers at {}; start `nodeward balance` with balance.socket set to that, or name \
         another in NODEWARD_SOCKET",
        socket.escaped()
    )]
    NoAgent {
        /// The path of the socket.
        socket: PathBuf,
        /// The error of connect(2).
        source: io::Error,
    },
    /// The socket may not be used.
    #[error("{} may not be used; balance.socket-mode and -group say who may", socket.escaped())]
    NoAccess {
        /// The path of the socket.
        socket: PathBuf,
        /// The error of connect(2).
        source: io::Error,
    },
    /// The agent ended meanwhile, or did not answer within 30 seconds.
    #[error("the agent did not answer; ask it again what it has done")]
    Lost(#[source] io::Error),
    /// The group has ended, or belongs to another user.
    #[error("there is no group {id} of yours, or no longer; make another")]
    NoSuchGroup {
        /// The number of the group.
        id: u32,
    },
    /// The thread does not exist, or has ended.
    #[error("there is no thread {tid}, or no longer; name one that runs")]
    NoSuchThread {
        /// The number of the thread, as gettid(2) returns it.
        tid: u32,
    },
    /// The process may not be touched; the words say why.
    #[error("{0}")]
    NotAllowed(String),
    /// There are as many groups, or pieces of memory in them, as there may be; the words say which.
    #[error("{0}")]
    LimitReached(String),
    /// The agent has had too many requests of this user for 30 seconds.
    #[error("{0}")]
    Busy(String),
    /// The machine failed, or cannot do it; the words say which.
    #[error("{0}")]
    Failed(String),
    /// Another refusal, or an answer that this version does not understand.
    #[error("the agent answered '{}'; it may be of another version", .0.escaped())]
    Strange(String),
}
