//! Why the pager could not do what was asked. What happened to single pages stands in a
//! [`crate::Report`], never here.

use std::io;

use nodeward_model::NodeId;
use rustix::io::Errno;

/// An error; nothing was done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A range is not made of whole pages.
    #[error(
        "bytes {start:#x} to {end:#x} are not whole pages; round both to a multiple of {page_bytes}"
    )]
    Unaligned {
        /// First byte, counted from the region's start.
        start: usize,
        /// One past the last.
        end: usize,
        /// What they must be multiples of.
        page_bytes: usize,
    },
    /// A range leaves the region.
    #[error("bytes {start:#x} to {end:#x} leave the region, which has {region_bytes:#x}")]
    OutOfRegion {
        /// First byte, counted from the region's start.
        start: usize,
        /// One past the last.
        end: usize,
        /// How many the region has.
        region_bytes: usize,
    },
    /// No such node, or none with memory that we may use.
    #[error(
        "node {node} has no memory that we may use; `nodeward show --topology` lists the nodes"
    )]
    UnknownNode {
        /// The node.
        node: NodeId,
    },
    /// A setting makes no sense.
    #[error("{what}; {fix}")]
    BadOption {
        /// What is wrong with it.
        what: String,
        /// What would be right.
        fix: String,
    },
    /// Huge pages were asked for and there are none.
    #[error("huge pages are not available: {why}")]
    NoHugePages {
        /// Why not, and what to do.
        why: String,
    },
    /// Something else than moving by the kernel was asked for, and does not work here.
    #[error(
        "{what} needs userfaultfd, which cannot be used: {why}; `nodeward doctor` tells what to do"
    )]
    NeedsUserfaultfd {
        /// What was asked for.
        what: &'static str,
        /// Why not.
        why: String,
    },
    /// This process is a child made by fork(2) of the one that opened the pager.
    #[error("this pager belongs to the parent process; open one of your own after fork(2)")]
    Forked,
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
    #[error("{what} needs a file descriptor and {whose} has none left; {fix}")]
    NoDescriptor {
        /// What would have it.
        what: &'static str,
        /// Who has used them up.
        whose: &'static str,
        /// What to do.
        fix: &'static str,
    },
    /// A system call failed.
    #[error("{call} failed: {source}")]
    System {
        /// Which.
        call: &'static str,
        /// How.
        source: io::Error,
    },
    /// The machine could not be looked at.
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

/// The result of what the pager does.
pub type Result<T> = std::result::Result<T, Error>;

/// Names the system call that failed, if it was not for want of a descriptor.
pub(crate) fn system(call: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| no_descriptor(call, &source).unwrap_or(Error::System { call, source })
}

/// That `what` has no file descriptor, if that is what an error says.
pub(crate) fn no_descriptor(what: &'static str, error: &io::Error) -> Option<Error> {
    let (whose, fix) = match Errno::from_io_error(error)? {
        Errno::MFILE => ("this process", "raise RLIMIT_NOFILE (ulimit -n) or close some"),
        Errno::NFILE => ("the system", "raise the sysctl fs.file-max"),
        _ => return None,
    };
    Some(Error::NoDescriptor { what, whose, fix })
}
