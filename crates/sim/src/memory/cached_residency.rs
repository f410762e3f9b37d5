//! The nodes of the memory that a task goes through, counted once for many turns.

use super::region::{GranuleRange, MemoryRegion};

/// The places of the memory that a task goes through, as of its last count: one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct CachedResidency {
    /// Space, region, first granule and number of granules; 0 granules before the first count.
    range_key: [u32; 4],
    version: u64,
    /// Base pages, 1 or more.
    pub pages: u64,
    /// Pages out of sight.
    pub in_flight: u64,
    /// Pages covered by one translation.
    translation_pages: u32,
    /// Whether there are pages marked for migrate-on-fault.
    pub has_lazy: bool,
    nodes: NodePages,
}

/// Nodes that have pages. Most tasks have one, on machines of any size.
#[derive(Debug)]
enum NodePages {
    One(u32),
    /// Several nodes or none, with the pages of each.
    Several(Box<[(u32, u64)]>),
}

impl Default for NodePages {
    fn default() -> Self {
        Self::Several(Box::default())
    }
}

impl CachedResidency {
    /// Counts a part anew, unless nothing has changed in its region since.
    pub fn refresh(&mut self, part: &GranuleRange, region: &MemoryRegion, nodes: usize) {
        if self.range_key != range_key(part) || self.version != region.version {
            self.count(part, region, nodes);
        }
    }

    fn count(&mut self, part: &GranuleRange, region: &MemoryRegion, nodes: usize) {
        let mut counts = vec![0; nodes + 2];
        region.add_counts(part.first..part.first + part.granules, &mut counts);
        let first = part.first as u64 * region.granule_pages();
        let is_huge = region.faults_huge && first < region.pages && region.is_huge(first);
        self.range_key = range_key(part);
        self.version = region.version;
        self.pages = counts[..nodes].iter().sum::<u64>().max(1);
        self.translation_pages = if is_huge { region.chunk_pages() as u32 } else { 1 };
        (self.has_lazy, self.in_flight) = (counts[nodes] > 0, counts[nodes + 1]);
        let on = counts[..nodes].iter().copied().zip(0..).filter(|&(pages, _)| pages > 0);
        let on: Box<[_]> = on.map(|(pages, node)| (node, pages)).collect();
        self.nodes = match *on {
            [(node, _)] => NodePages::One(node),
            _ => NodePages::Several(on),
        };
    }

    /// Returns the nodes that have pages, with the pages of each.
    pub fn pages_by_node(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let (one, several) = match &self.nodes {
            NodePages::One(node) => (Some((*node, self.pages)), [].as_slice()),
            NodePages::Several(nodes) => (None, &nodes[..]),
        };
        let nodes = one.into_iter().chain(several.iter().copied());
        nodes.map(|(node, pages)| (node as usize, pages))
    }

    /// Returns the number of translations that the pages need.
    pub fn translations(&self) -> u64 {
        self.pages.div_ceil(u64::from(self.translation_pages))
    }
}

/// Returns the part in a compact form.
fn range_key(part: &GranuleRange) -> [u32; 4] {
    [part.space, part.region, part.first, part.granules].map(|value| value as u32)
}
