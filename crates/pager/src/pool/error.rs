//! Why a page pool did not do what was asked.

use nodeward_model::NodeId;

/// An error; nothing was done, and the pool is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// A run cannot be so long.
    #[error("order {order} is too large; a run has at most 2^{order_max} pages")]
    Order {
        /// What was asked for.
        order: u32,
        /// The largest.
        order_max: u32,
    },
    /// No such node, or none with memory that we may use.
    #[error(
        "node {node} has no memory that we may use; `nodeward show --topology` lists the nodes"
    )]
    UnknownNode {
        /// The node.
        node: NodeId,
    },
    /// No node that was allowed has room for the run.
    #[error("no memory for a run of order {order}; free some, or open the pool with more")]
    NoMemory {
        /// Order of the run.
        order: u32,
    },
    /// The pool has no memory there.
    #[error("{address:#x} is not of this pool; free it where it comes from")]
    NotOurs {
        /// What should have been freed.
        address: u64,
    },
    /// There is memory of the pool, but no run begins there.
    #[error("no run begins at {address:#x}; free the address that was allocated")]
    NotAStart {
        /// What should have been freed.
        address: u64,
    },
    /// The run has another length.
    #[error("the run at {address:#x} has order {allocated}, not {freed}; free all of it at once")]
    WrongOrder {
        /// Where it begins.
        address: u64,
        /// What was allocated.
        allocated: u32,
        /// What should have been freed.
        freed: u32,
    },
    /// A [`crate::PageRun`] has it.
    #[error("the run at {address:#x} has a guard that frees it; drop that")]
    Guarded {
        /// Where it begins.
        address: u64,
    },
    /// Nobody has it.
    #[error("{address:#x} was freed before, or never allocated; free every run once")]
    DoubleFree {
        /// What should have been freed.
        address: u64,
    },
    /// Somebody wrote to memory after it was freed. It is not handed out again. Found by debug
    /// builds only.
    #[error("{address:#x} was written after it was freed; look for who keeps pointers to it")]
    WrittenAfterFree {
        /// The first word of it.
        address: u64,
    },
    /// The pool was closed.
    #[error("the pool is closed; what was allocated can still be freed")]
    Closed,
    /// This process is a child made by fork(2) of the one that opened the pool.
    #[error("this pool belongs to the parent process; open one of your own after fork(2)")]
    Forked,
}
