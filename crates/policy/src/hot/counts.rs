//! Counts of accesses by page and node.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use nodeward_model::{NodeId, Range};

use super::folio_location::FolioLocation;

/// Limit on the pairs of a page and a node: below 1 GB, at 41 to 47 bytes a pair.
const PAIRS_MAX: usize = 1 << 24;

/// Accesses to the pages of a process by page and node, in bounded memory.
#[derive(Clone, Debug)]
pub struct PageAccessCounts {
    page_bytes: u64,
    pairs: BTreeMap<(u64, NodeId), u64>,
    pairs_max: usize,
    dropped: u64,
}

impl PageAccessCounts {
    /// Returns empty counts of pages of this size (a power of two).
    pub fn new(page_bytes: u64) -> Self {
        Self::with_capacity(page_bytes, PAIRS_MAX)
    }

    /// Returns empty counts with room for `pairs_max` pairs of a page and a node.
    pub fn with_capacity(page_bytes: u64, pairs_max: usize) -> Self {
        Self { page_bytes, pairs: BTreeMap::new(), pairs_max, dropped: 0 }
    }

    /// Counts accesses of a node to the page that holds an address. When the memory limit is
    /// reached, accesses by new pairs are dropped.
    pub fn add(&mut self, address: u64, node: NodeId, accesses: u64) {
        let is_full = self.pairs.len() >= self.pairs_max;
        let page = address & !(self.page_bytes - 1);
        match self.pairs.entry((page, node)) {
            Entry::Occupied(mut known) => *known.get_mut() = known.get().saturating_add(accesses),
            Entry::Vacant(_) if is_full => {
                self.dropped = self.dropped.saturating_add(accesses);
            }
            Entry::Vacant(new) => {
                new.insert(accesses);
            }
        }
    }

    /// Adds all accesses of other counts.
    pub fn merge(&mut self, others: &Self) {
        others.iter().for_each(|((page, node), accesses)| self.add(page, node, accesses));
        self.dropped = self.dropped.saturating_add(others.dropped);
    }

    /// Returns the number of dropped accesses.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns true if nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Iterates over the addresses of the counted pages, in ascending order.
    pub fn pages(&self) -> impl Iterator<Item = u64> + '_ {
        let mut last = None;
        let pages = self.pairs.keys().map(|&(page, _)| page);
        pages.filter(move |&page| last.replace(page) != Some(page))
    }

    /// Iterates over the counts of pages and nodes, in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = ((u64, NodeId), u64)> + '_ {
        self.pairs.iter().map(|(&pair, &count)| (pair, count))
    }

    /// Returns the accesses to a folio, by page and node.
    pub(super) fn folio_accesses(&self, folio: Range) -> Vec<(NodeId, u64)> {
        let pages = (folio.start, NodeId(0))..(folio.end, NodeId(0));
        self.pairs.range(pages).map(|(&(_, node), &count)| (node, count)).collect()
    }

    /// Returns the size of a page in bytes.
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Visits each counted folio with the number of its counted pages and their accesses by node.
    /// Pages without a place are visited one by one.
    pub(super) fn for_each_folio(
        &self,
        place_of: impl Fn(u64) -> Option<FolioLocation>,
        mut visit: impl FnMut(Option<FolioLocation>, u64, &mut [(NodeId, u64)]),
    ) {
        let mut accesses: Vec<(NodeId, u64)> = Vec::new();
        let mut pairs = self.pairs.iter().peekable();
        while let Some(&(&(first, _), _)) = pairs.peek() {
            let folio = place_of(first);
            let is_within = |page| page == first || folio.is_some_and(|f| self.holds(f, page));
            let (mut pages, mut last) = (0, None);
            accesses.clear();
            while let Some((&(page, node), &count)) = pairs.next_if(|pair| is_within(pair.0.0)) {
                pages += u64::from(last.replace(page) != Some(page));
                match accesses.iter_mut().find(|access| access.0 == node) {
                    Some(access) => access.1 = access.1.saturating_add(count),
                    None => accesses.push((node, count)),
                }
            }
            visit(folio, pages, &mut accesses);
        }
    }

    fn holds(&self, folio: FolioLocation, page: u64) -> bool {
        let bytes = u64::from(folio.pages).saturating_mul(self.page_bytes);
        page.checked_sub(folio.address).is_some_and(|offset| offset < bytes)
    }
}
