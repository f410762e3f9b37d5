//! One stratum of a line, and the results of its probes.

use std::collections::BTreeMap;

use nodeward_model::{NodeId, PageLocation};

use super::{Shuffle, SplitMix64};

/// A part of a line in which addresses are drawn without replacement.
#[derive(Clone, Debug)]
pub struct Stratum {
    first: u64,
    pages: u64,
    order: Shuffle,
    drawn: u64,
    nodes: BTreeMap<NodeId, u64>,
    on_nodes: u64,
    swapped: u64,
    unmovable: u64,
}

impl Stratum {
    /// Returns the stratum of `pages` pages of a line from number `first` on.
    pub fn new(first: u64, pages: u64, stream: &mut SplitMix64) -> Self {
        Self {
            first,
            pages,
            order: Shuffle::new(pages, stream),
            drawn: 0,
            nodes: BTreeMap::new(),
            on_nodes: 0,
            swapped: 0,
            unmovable: 0,
        }
    }

    /// Draws up to `count` further pages and appends their numbers on the line, in ascending order
    /// (adjacent pages share page tables, which makes reading them cheaper).
    pub fn draw(&mut self, count: u64, into: &mut Vec<u64>) {
        let end = (self.drawn + count).min(self.pages);
        let begin = into.len();
        into.extend((self.drawn..end).map(|place| self.first + self.order.at(place)));
        into[begin..].sort_unstable();
        self.drawn = end;
    }

    /// Adds the place of a drawn page.
    pub fn record(&mut self, place: PageLocation) {
        match place {
            PageLocation::Absent => {}
            PageLocation::Swapped | PageLocation::InFlight => self.swapped += 1,
            PageLocation::Unmovable => self.unmovable += 1,
            PageLocation::On(node) => {
                self.on_nodes += 1;
                *self.nodes.entry(node).or_default() += 1;
            }
        }
    }

    /// Returns the number of pages in it.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// Returns the number of pages drawn from it so far.
    pub fn drawn(&self) -> u64 {
        self.drawn
    }

    /// Returns the number of drawn pages on nodes.
    pub fn on_nodes(&self) -> u64 {
        self.on_nodes
    }

    /// Returns the number of drawn pages on one node.
    pub fn pages_on(&self, node: NodeId) -> u64 {
        self.nodes.get(&node).copied().unwrap_or(0)
    }

    /// Iterates over the nodes of drawn pages, in ascending order.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.keys().copied()
    }

    /// Returns the number of drawn pages in swap.
    pub fn swapped(&self) -> u64 {
        self.swapped
    }

    /// Returns the number of drawn pages that never move (the zero page, device memory).
    pub fn unmovable(&self) -> u64 {
        self.unmovable
    }
}
