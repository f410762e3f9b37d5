//! The state of one base page of a process.

use crate::NodeId;

/// The place of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageLocation {
    /// There is no page: never touched, or freed.
    Absent,
    /// In swap, on no node.
    Swapped,
    /// In flight: some task is moving it at the moment.
    InFlight,
    /// In memory, but the kernel never moves it: the zero page, device memory.
    Unmovable,
    /// In memory on a node.
    On(NodeId),
}

/// One base page as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its place.
    pub location: PageLocation,
    /// True if it is known to be mapped by more than one process.
    pub shared: bool,
    /// Base pages in the folio that begins here; 0 for a page inside a folio that began earlier.
    /// Where the kernel does not report folios, every page counts as a folio of its own (1).
    pub folio_pages: u32,
}

impl Page {
    /// An address without a page.
    pub const ABSENT: Self = Self { location: PageLocation::Absent, shared: false, folio_pages: 1 };

    /// Returns a base page on a node, mapped by one process.
    pub fn on(node: NodeId) -> Self {
        Self { location: PageLocation::On(node), shared: false, folio_pages: 1 }
    }

    /// Returns the node, if the page is in memory and movable.
    pub fn node(self) -> Option<NodeId> {
        match self.location {
            PageLocation::On(node) => Some(node),
            _ => None,
        }
    }
}
