//! Reasons why a page was not moved.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The reason why a selected page was not moved. The set is documented and closed: every page of a
/// move is moved, already there, or skipped for exactly one of these reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SkipReason {
    /// The page has an extra reference: direct I/O, RDMA, vfio, io_uring, a pipe, writeback that
    /// did not end; or the kernel held it for a moment at each attempt.
    Pinned,
    /// Other processes map the page too, and moving it needs CAP_SYS_NICE.
    Shared,
    /// A child made by fork(2) still has the page, or no process has written to it since the child
    /// had it.
    SharedAfterFork,
    /// There is no page: it was freed, unmapped or truncated between reading and moving, or it
    /// never existed.
    NotPresent,
    /// The page is in swap; the kernel chooses its node when it comes back.
    Swapped,
    /// The destination node has no free memory.
    NoMemory,
    /// The destination's pool has no free huge page of that size, and its memory has no room for
    /// one.
    NoHugePage,
    /// The target's cpuset does not allow the destination node.
    NotAllowed,
    /// The kernel never moves this page: zero page, device memory, special mapping.
    Unmovable,
    /// The kernel put the page on another node than the requested one.
    WrongNode,
    /// The page is part of a folio (a larger page) that cannot be moved within the stall budget.
    StallBudget,
    /// The move was interrupted before the page's turn.
    Interrupted,
    /// The process exited or called exec before or while the page was moved.
    Gone,
    /// The kernel refused with an error for which there is no other reason here.
    Refused,
    /// The page is in a shared mapping or segment that is too large for the move's limit.
    SharedAbove,
    /// The page was not tried, because other pages of its mapping were found pinned.
    PinnedUntried,
}

impl SkipReason {
    /// Every reason.
    pub const ALL: [Self; 16] = [
        Self::Pinned,
        Self::Shared,
        Self::SharedAfterFork,
        Self::NotPresent,
        Self::Swapped,
        Self::NoMemory,
        Self::NoHugePage,
        Self::NotAllowed,
        Self::Unmovable,
        Self::WrongNode,
        Self::StallBudget,
        Self::Interrupted,
        Self::Gone,
        Self::Refused,
        Self::SharedAbove,
        Self::PinnedUntried,
    ];

    /// Returns the name in output and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::Shared => "shared",
            Self::SharedAfterFork => "shared-after-fork",
            Self::NotPresent => "not-present",
            Self::Swapped => "swapped",
            Self::NoMemory => "no-memory",
            Self::NoHugePage => "no-huge-page",
            Self::NotAllowed => "not-allowed",
            Self::Unmovable => "unmovable",
            Self::WrongNode => "wrong-node",
            Self::StallBudget => "stall-budget",
            Self::Interrupted => "interrupted",
            Self::Gone => "gone",
            Self::Refused => "refused",
            Self::SharedAbove => "shared-above",
            Self::PinnedUntried => "pinned-untried",
        }
    }

    /// Returns one line for people: the meaning and the remedy.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Pinned => {
                "held at every attempt, for a moment by chance or for long by I/O; try again"
            }
            Self::Shared => "mapped by other processes; run with CAP_SYS_NICE to move it",
            Self::SharedAfterFork => {
                "a child, or KSM, still shares it; try again when the child has ended"
            }
            Self::NotPresent => {
                "no page there: never touched, or freed or unmapped meanwhile; nothing to do"
            }
            Self::Swapped => "in swap; it is placed when it is read back",
            Self::NoMemory => "destination full; free memory there or move less",
            Self::NoHugePage => "no free huge page there; raise nr_hugepages of that node",
            Self::NotAllowed => "outside the target's cpuset; widen cpuset.mems",
            Self::Unmovable => "zero page, device or kernel memory; the kernel never moves it",
            Self::WrongNode => "the kernel placed it on another node; see the residency below",
            Self::StallBudget => {
                "part of a larger page, which takes longer than --stall; raise the budget"
            }
            Self::Interrupted => "stopped before its turn; run the same command again",
            Self::Gone => "the process ended or called exec; nothing to do",
            Self::Refused => "the kernel refused; run with RUST_LOG=debug to see the error",
            Self::SharedAbove => "shared memory larger than --skip-shared-above; raise the limit",
            Self::PinnedUntried => {
                "its mapping holds pinned pages; leave out --skip-pinned to try it"
            }
        }
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
