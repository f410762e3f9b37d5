//! One call that moves pages, and how it ended.

use nodeward_model::NodeId;

/// An address that no process maps. As an entry of a batch it ends a run: the machine finishes
/// moving what stands before it (and lets go of those pages) before it takes hold of what stands
/// behind it.
pub const SEPARATOR: u64 = 0;

/// Pages to move, in order. Unbroken runs of entries with one destination are moved together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoveBatch {
    addresses: Vec<u64>,
    nodes: Vec<NodeId>,
    /// Also move pages that other processes map (needs CAP_SYS_NICE).
    pub everyones: bool,
}

impl MoveBatch {
    /// An empty batch.
    pub fn new(everyones: bool) -> Self {
        Self { everyones, ..Self::default() }
    }

    /// Adds a folio by the address of one of its pages.
    pub fn push(&mut self, address: u64, node: NodeId) {
        self.addresses.push(address);
        self.nodes.push(node);
    }

    /// Ends the current run of entries.
    pub fn separate(&mut self) {
        if let Some(&node) = self.nodes.last() {
            self.push(SEPARATOR, node);
        }
    }

    /// Entries, separators included.
    pub fn len(&self) -> usize {
        self.addresses.len()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// The addresses, in order.
    pub fn addresses(&self) -> &[u64] {
        &self.addresses
    }

    /// The destination of each address.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }
}

/// Why the machine did not move an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Somebody else holds the page, or has already taken it off its list (a second address of one
    /// folio ends here too): ask again where it is.
    Busy,
    /// Other processes map it and the batch was not for everyone's pages.
    Shared,
    /// Nothing is there.
    Absent,
    /// The kernel never moves it, or (Linux before 6.12) nothing is there.
    Fault,
    /// No memory on the destination.
    NoMemory,
    /// Another error number.
    Other(i32),
}

/// What is known of one entry afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryStatus {
    /// The page is on this node now.
    On(NodeId),
    /// The machine refused.
    Refused(Refusal),
    /// The call ended before it told.
    Unwritten,
}

/// How the call as a whole ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// Every entry was attempted and has a status.
    Complete,
    /// A folio could not be moved: its run has no status and what stood behind it was not
    /// attempted.
    Aborted,
    /// The destination ran out of memory; as `Aborted` otherwise.
    NoMemory,
    /// The target's cpuset does not allow a destination.
    NotAllowed,
    /// The process ended before or in the middle of the call.
    Gone,
}

/// The outcome of one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MoveOutcome {
    /// How the call ended.
    pub end: CallEnd,
    /// One status per entry of the batch.
    pub status: Vec<EntryStatus>,
}
