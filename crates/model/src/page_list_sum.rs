//! The kernel's page lists: free pages that each CPU keeps of each zone.

use crate::NodeId;

/// The page lists of one zone, summed over all CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageListSum {
    /// The node of the zone.
    pub node: NodeId,
    /// The name of the zone.
    pub zone: String,
    /// Base pages in the lists.
    pub pages: u64,
    /// Base pages above which the lists give some back to the zone.
    pub high_pages: u64,
}
