//! What is known of one base page of a process.

use crate::NodeId;

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nothing is there: never touched, or freed.
    Absent,
    /// In swap, on no node.
    Swapped,
    /// Between two places for a moment: somebody is moving it.
    InFlight,
    /// In memory, but the kernel never moves it: the zero page, device memory.
    Fixed,
    /// In memory on a node.
    On(NodeId),
}

/// One base page as it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Where it is.
    pub place: Place,
    /// Whether it is known to be mapped by more than one process.
    pub shared: bool,
    /// Base pages in the folio that begins here; 0 for a page inside the folio before it. Where the
    /// kernel does not tell, every page counts as a folio of its own (1).
    pub folio_pages: u32,
}

impl Page {
    /// Nothing is there.
    pub const ABSENT: Self = Self { place: Place::Absent, shared: false, folio_pages: 1 };

    /// A base page on a node, mapped by one process.
    pub fn on(node: NodeId) -> Self {
        Self { place: Place::On(node), shared: false, folio_pages: 1 }
    }

    /// The node, if the page is in memory and movable.
    pub fn node(self) -> Option<NodeId> {
        match self.place {
            Place::On(node) => Some(node),
            _ => None,
        }
    }
}
