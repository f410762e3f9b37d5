//! The arguments and the outcome of one call that moves pages.

use nodeward_model::NodeId;

/// An address that no process maps. As an entry of a batch it ends a run: the machine finishes
/// moving the pages of the entries before it, and drops its references to them, before it takes
/// references to the pages of the entries after it.
pub const SEPARATOR: u64 = 0;

/// Pages to move, in order. Consecutive entries with the same destination are moved together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MovePagesCall {
    addresses: Vec<u64>,
    nodes: Vec<NodeId>,
    /// Also move pages that other processes map (needs CAP_SYS_NICE).
    pub move_shared: bool,
}

impl MovePagesCall {
    /// Returns an empty batch.
    pub fn new(move_shared: bool) -> Self {
        Self { move_shared, ..Self::default() }
    }

    /// Adds a folio, named by the address of any of its pages.
    pub fn push(&mut self, address: u64, node: NodeId) {
        self.addresses.push(address);
        self.nodes.push(node);
    }

    /// Ends the current run of entries by adding a [`SEPARATOR`]. Does nothing to an empty batch.
    pub fn end_run(&mut self) {
        if let Some(&node) = self.nodes.last() {
            self.push(SEPARATOR, node);
        }
    }

    /// Returns the number of entries, separators included.
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Returns true if the batch has no entries.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// Returns the addresses, in order.
    pub fn addresses(&self) -> &[u64] {
        &self.addresses
    }

    /// Returns the destination of each address.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }
}

/// The reason why the machine did not move an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryRefusal {
    /// Another task holds the page or has already isolated it from its LRU list (a second address
    /// of the same folio ends here too). The caller must look up again where the page is.
    Busy,
    /// Other processes map the page, and the batch was not allowed to move shared pages.
    Shared,
    /// There is no page at the address.
    Absent,
    /// The kernel never moves the page, or (Linux before 6.12) there is no page.
    Fault,
    /// The destination has no free memory.
    NoMemory,
    /// Any other error number.
    Other(i32),
}

/// The state of one entry after the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryStatus {
    /// The page is on this node now.
    On(NodeId),
    /// The machine did not move the page.
    Refused(EntryRefusal),
    /// The call ended before it wrote a status.
    Unwritten,
}

/// The way in which the call as a whole ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// Every entry was attempted and has a status.
    Complete,
    /// A folio could not be moved: its run has no status, and the entries after that run were not
    /// attempted.
    Aborted,
    /// The destination ran out of memory; otherwise as `Aborted`.
    NoMemory,
    /// The target's cpuset does not allow a destination.
    NotAllowed,
    /// The process exited before or during the call.
    Gone,
}

/// The outcome of one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovePagesOutcome {
    /// The end of the call.
    pub end: CallEnd,
    /// One status per entry of the batch.
    pub status: Vec<EntryStatus>,
}
