//! Errors of a page pool.

use nodeward_model::NodeId;

/// An error. Nothing was done, and the pool is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The order of a run is too large.
    #[error("order {order} is too large; a run has at most 2^{order_max} pages")]
    Order {
        /// The order that was requested.
        order: u32,
        /// The largest order.
        order_max: u32,
    },
    /// The node does not exist, or has no memory that we may use.
    #[error(
        "node {node} has no memory that we may use; `nodeward show --topology` lists the nodes"
    )]
    UnknownNode {
        /// The node.
        node: NodeId,
    },
    /// No allowed node has room for the run.
    #[error("no memory for a run of order {order}; free some, or open the pool with more")]
    NoMemory {
        /// Order of the run.
        order: u32,
    },
    /// The address is not in the pool's memory.
    #[error("{address:#x} is not of this pool; free it where it comes from")]
    NotOurs {
        /// The address that was to be freed.
        address: u64,
    },
    /// The address is in the pool's memory, but no run begins there.
    #[error("no run begins at {address:#x}; free the address that was allocated")]
    NotAStart {
        /// The address that was to be freed.
        address: u64,
    },
    /// The run has another order.
    #[error("the run at {address:#x} has order {allocated}, not {freed}; free all of it at once")]
    WrongOrder {
        /// Start address of the run.
        address: u64,
        /// The order that was allocated.
        allocated: u32,
        /// The order that was to be freed.
        freed: u32,
    },
    /// The run belongs to a [`crate::PageRun`].
    #[error("the run at {address:#x} has a guard that frees it; drop that")]
    Guarded {
        /// Start address of the run.
        address: u64,
    },
    /// The run is not allocated.
    #[error("{address:#x} was freed before, or never allocated; free every run once")]
    DoubleFree {
        /// The address that was to be freed.
        address: u64,
    },
    /// The memory was written after it was freed. It is not handed out again. Only debug builds
    /// detect this.
    #[error("{address:#x} was written after it was freed; look for who keeps pointers to it")]
    WrittenAfterFree {
        /// Address of the first word that differs.
        address: u64,
    },
    /// The pool was closed.
    #[error("the pool is closed; what was allocated can still be freed")]
    Closed,
    /// This process is a child made by fork(2) of the one that opened the pool.
    #[error("this pool belongs to the parent process; open one of your own after fork(2)")]
    Forked,
}
