//! Errors of the pager. The outcome of single pages is in a [`crate::MigrationReport`], never here.

use std::io;

use nodeward_model::NodeId;
use rustix::io::Errno;

/// An error. Nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A range is not made of whole pages.
    #[error(
        "bytes {start:#x} to {end:#x} are not whole pages; round both to a multiple of {page_bytes}"
    )]
    Unaligned {
        /// First byte, counted from the region's start.
        start: usize,
        /// One past the last byte.
        end: usize,
        /// The size that both ends must be multiples of.
        page_bytes: usize,
    },
    /// A range leaves the region.
    #[error("bytes {start:#x} to {end:#x} leave the region, which has {region_bytes:#x}")]
    OutOfRegion {
        /// First byte, counted from the region's start.
        start: usize,
        /// One past the last.
        end: usize,
        /// Size of the region in bytes.
        region_bytes: usize,
    },
    /// The node does not exist, or has no memory that we may use.
    #[error(
        "node {node} has no memory that we may use; `nodeward show --topology` lists the nodes"
    )]
    UnknownNode {
        /// The node.
        node: NodeId,
    },
    /// An option is invalid.
    #[error("{problem}; {remedy}")]
    BadOption {
        /// The value that is wrong.
        problem: String,
        /// The remedy.
        remedy: String,
    },
    /// Huge pages were requested and are not available.
    #[error("huge pages are not available: {reason}")]
    NoHugePages {
        /// The reason, and what to do.
        reason: String,
    },
    /// Something other than migration by the kernel was requested, and does not work here.
    #[error(
        "{feature} needs userfaultfd, which cannot be used: {reason}; `nodeward doctor` tells what \
         to do"
    )]
    NeedsUserfaultfd {
        /// The request.
        feature: &'static str,
        /// The reason.
        reason: String,
    },
    /// This process is a child made by fork(2) of the one that opened the pager.
    #[error("this pager belongs to the parent process; open one of your own after fork(2)")]
    Forked,
    /// A copier called the pager that it copies for: the call would wait for itself.
    #[error("a copier must not call the pager; call it from a thread of your own")]
    WithinPager,
    /// The region is being dropped.
    #[error("the region is going away")]
    Closing,
    /// A node had no room for memory to be committed.
    #[error("node {node} has no room for it; commit less or elsewhere")]
    NoRoom {
        /// The node.
        node: NodeId,
    },
    /// No file descriptor is left.
    #[error("{action} needs a file descriptor and {owner} has none left; {remedy}")]
    NoDescriptor {
        /// The part of the pager that needs the descriptor.
        action: &'static str,
        /// The limit that is reached: that of this process or of the system.
        owner: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// A system call failed.
    #[error("{call} failed: {source}")]
    System {
        /// Name of the call.
        call: &'static str,
        /// The error of the call.
        source: io::Error,
    },
    /// Reading the machine's state failed.
    #[error(transparent)]
    Machine(nodeward_machine::Error),
}

impl From<nodeward_machine::Error> for Error {
    fn from(error: nodeward_machine::Error) -> Self {
        use nodeward_machine::Error::{Read, Syscall};
        let missing = match &error {
            Read { source, .. } => no_descriptor("reading /proc and /sys", source),
            Syscall { call, source } => no_descriptor(call, source),
            _ => None,
        };
        missing.unwrap_or(Self::Machine(error))
    }
}

/// The result of a pager operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Wraps an I/O error with the name of the system call, or as [`Error::NoDescriptor`].
pub(crate) fn system(call: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| no_descriptor(call, &source).unwrap_or(Error::System { call, source })
}

/// Returns [`Error::NoDescriptor`] for `what` if the error says so.
pub(crate) fn no_descriptor(what: &'static str, error: &io::Error) -> Option<Error> {
    let (whose, fix) = match Errno::from_io_error(error)? {
        Errno::MFILE => ("this process", "raise RLIMIT_NOFILE (ulimit -n) or close some"),
        Errno::NFILE => ("the system", "raise the sysctl fs.file-max"),
        _ => return None,
    };
    Some(Error::NoDescriptor { action: what, owner: whose, remedy: fix })
}
