//! The kernel's page lists: free pages that each CPU keeps of each zone.

use serde::Serialize;

use crate::{CpuId, NodeId};

/// The list of free pages that one CPU keeps of one zone (the kernel's `per_cpu_pages`), in base
/// pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PageList {
    /// The CPU.
    pub cpu: CpuId,
    /// Pages in the list.
    pub count_pages: u64,
    /// Pages above which the list gives some back to the zone.
    pub high_pages: u64,
    /// The smallest number of pages that go to or from the zone at once.
    pub batch_pages: u64,
    /// The least `high_pages` that the kernel's own tuner chooses; `None` where it is not told.
    pub high_min_pages: Option<u64>,
    /// The greatest `high_pages` that it chooses, likewise.
    pub high_max_pages: Option<u64>,
}

/// A zone of memory, and the page lists in front of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ZoneLists {
    /// The node of the zone.
    pub node: NodeId,
    /// The name of the zone.
    pub zone: String,
    /// Base pages that the page allocator manages there.
    pub managed_pages: u64,
    /// Base pages that are free there, without those in lists.
    pub free_pages: u64,
    /// Free base pages at which the kernel stops to reclaim.
    pub high_watermark_pages: u64,
    /// The lists, by CPU.
    pub lists: Vec<PageList>,
}

impl ZoneLists {
    /// Returns the base pages in all lists.
    pub fn count_pages(&self) -> u64 {
        self.lists.iter().map(|list| list.count_pages).fold(0, u64::saturating_add)
    }

    /// Returns the base pages above which the lists give some back, of all lists together.
    pub fn high_pages(&self) -> u64 {
        self.lists.iter().map(|list| list.high_pages).fold(0, u64::saturating_add)
    }
}
