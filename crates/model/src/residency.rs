//! Residency: the number of pages of a process on each node, by kind of mapping.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{MappingKind, NodeId, Pid};

/// The pages on one node and their share of all pages on nodes, in millionths (ppm). If the pages
/// were counted, the bounds equal the share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeShare {
    /// Base pages on the node.
    pub pages: u64,
    /// Their share, in ppm.
    pub share_ppm: u64,
    /// Lower bound of the share at 95 % confidence, in ppm.
    pub share_ppm_low: u64,
    /// Upper bound of the share at 95 % confidence, in ppm.
    pub share_ppm_high: u64,
}

impl NodeShare {
    /// Returns the largest distance of a bound from the share, in ppm.
    pub fn half_width_ppm(&self) -> u64 {
        let below = self.share_ppm.saturating_sub(self.share_ppm_low);
        below.max(self.share_ppm_high.saturating_sub(self.share_ppm))
    }
}

/// The residency of one kind of mapping, or of all kinds together, in base pages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KindResidency {
    /// Pages per node, for nodes that hold any.
    pub nodes: BTreeMap<NodeId, NodeShare>,
    /// Pages on all nodes together.
    pub pages: u64,
    /// Pages in swap.
    pub swapped: u64,
    /// Pages in memory that the kernel never moves and that belong to no node here (the zero page,
    /// device memory).
    pub fixed: u64,
    /// True if the pages were counted one by one; false if they are estimated from samples.
    pub exact: bool,
    /// Addresses that were sampled.
    pub probes: u64,
}

impl KindResidency {
    /// Returns the residency of counted pages.
    pub fn counted(counts: &BTreeMap<NodeId, u64>) -> Self {
        let pages: u64 = counts.values().sum();
        let share = |&count: &u64| {
            let ppm = ppm(count, pages);
            NodeShare { pages: count, share_ppm: ppm, share_ppm_low: ppm, share_ppm_high: ppm }
        };
        let nodes = counts.iter().map(|(&node, count)| (node, share(count))).collect();
        Self { nodes, pages, exact: true, ..Self::default() }
    }

    /// Returns the pages on one node.
    pub fn pages_on(&self, node: NodeId) -> u64 {
        self.nodes.get(&node).map_or(0, |share| share.pages)
    }

    /// Returns the bytes on each node, of pages of this size.
    pub fn bytes(&self, page_bytes: u64) -> BTreeMap<NodeId, u64> {
        self.nodes.iter().map(|(&node, share)| (node, share.pages * page_bytes)).collect()
    }

    /// Returns the widest interval of a share, in ppm, as [`NodeShare::half_width_ppm`].
    pub fn half_width_ppm(&self) -> u64 {
        self.nodes.values().map(NodeShare::half_width_ppm).max().unwrap_or(0)
    }

    /// Returns true if it has no pages of any sort.
    pub fn is_empty(&self) -> bool {
        self.pages + self.swapped + self.fixed == 0
    }
}

/// The residency of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Residency {
    /// The process.
    pub pid: Pid,
    /// Bytes in a base page.
    pub page_bytes: u64,
    /// Residency by kind; kinds without pages are left out.
    pub kinds: BTreeMap<MappingKind, KindResidency>,
    /// True if a limit on time or work ended the sampling early.
    pub capped: bool,
}

impl Residency {
    /// Returns the residency of all kinds together. Their intervals are independent, so the squares
    /// of their half-widths add up, each weighted with the pages of its kind.
    pub fn total(&self) -> KindResidency {
        let mut counts = BTreeMap::new();
        for (&node, share) in self.kinds.values().flat_map(|kind| &kind.nodes) {
            *counts.entry(node).or_default() += share.pages;
        }
        let mut total = KindResidency::counted(&counts);
        for (node, share) in &mut total.nodes {
            let reach = self.half_width_ppm(*node, total.pages);
            share.share_ppm_low = share.share_ppm.saturating_sub(reach);
            share.share_ppm_high = (share.share_ppm + reach).min(1_000_000);
        }
        for kind in self.kinds.values() {
            total.swapped += kind.swapped;
            total.fixed += kind.fixed;
            total.probes += kind.probes;
            total.exact &= kind.exact;
        }
        total
    }

    fn half_width_ppm(&self, node: NodeId, pages: u64) -> u64 {
        // A node that no sample of a kind hit may still hold pages of that kind.
        let reach = |kind: &KindResidency| match kind.nodes.get(&node) {
            Some(share) => share.half_width_ppm(),
            None => kind.half_width_ppm(),
        };
        let part = |kind: &KindResidency| {
            u128::from(reach(kind)) * u128::from(kind.pages) / u128::from(pages.max(1))
        };
        let squares: u128 = self.kinds.values().map(|kind| part(kind).pow(2)).sum();
        u64::try_from(squares.isqrt()).unwrap_or(u64::MAX)
    }
}

fn ppm(part: u64, whole: u64) -> u64 {
    let whole = u128::from(whole.max(1));
    u64::try_from((u128::from(part) * 1_000_000 + whole / 2) / whole).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(pages: [u64; 2], reach_ppm: u64) -> KindResidency {
        let counts = [(NodeId(0), pages[0]), (NodeId(1), pages[1])].into();
        let mut kind = KindResidency::counted(&counts);
        for share in kind.nodes.values_mut() {
            share.share_ppm_low = share.share_ppm.saturating_sub(reach_ppm);
            share.share_ppm_high = share.share_ppm + reach_ppm;
        }
        kind.exact = reach_ppm == 0;
        kind
    }

    #[test]
    fn the_total_adds_pages_and_squares_of_reaches() {
        let kinds = [
            (MappingKind::Heap, kind([300, 100], 20_000)),
            (MappingKind::Anonymous, kind([100, 300], 15_000)),
            (MappingKind::Stack, kind([0, 200], 0)),
        ];
        let residency = Residency {
            pid: Pid::new(1).unwrap(),
            page_bytes: 4096,
            kinds: kinds.into(),
            capped: false,
        };
        let total = residency.total();
        // 400 of 1000 pages; half-width √((0.4 x 20000)² + (0.4 x 15000)²) = √(8000² + 6000²) =
        // 10000.
        let expected = NodeShare {
            pages: 400,
            share_ppm: 400_000,
            share_ppm_low: 390_000,
            share_ppm_high: 410_000,
        };
        assert_eq!(total.nodes[&NodeId(0)], expected);
        assert_eq!((total.pages, total.exact), (1000, false));
    }

    #[test]
    fn nothing_has_no_shares() {
        let nothing = KindResidency::counted(&BTreeMap::new());
        assert!(nothing.is_empty() && nothing.half_width_ppm() == 0);
    }
}
