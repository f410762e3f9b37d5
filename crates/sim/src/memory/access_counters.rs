//! Counters of accesses in the memory controllers, as Itanium machines of 2004 had them.
//!
//! Each node has a fixed number of counters per period. A page gets a counter with its first
//! access, as long as any is left, and keeps it until the counters are read: hardware cannot tell
//! which page is worth one, and has no time to search for the least used. Accesses to further pages
//! are lost. Reading clears the counters.

use std::collections::BTreeMap;

use nodeward_model::{NodeId, Pid};
use nodeward_policy::sampling::SplitMix64;

use super::region::{GranuleRange, MemoryRegion};
use crate::ids::SpaceId;

/// Pages of a turn that are sampled; each stands for its share of the turn's lines.
const SAMPLED_PAGES: u64 = 16;

/// A page: its space, region and index.
pub type PageKey = (SpaceId, usize, u64);

/// Number of pages per lookup block of counters.
const BLOCK_PAGES: u64 = 512;

/// The counters of one node's memory.
#[derive(Clone, Debug, Default)]
struct NodeAccessCounters {
    /// The counter of each page, counted from 1; 0 for none. By block of pages.
    of_page: BTreeMap<PageKey, Vec<u32>>,
    /// The pages that have a counter.
    pages: Vec<PageKey>,
    /// Lines by counter and by node of the CPU.
    lines: Vec<u64>,
}

impl NodeAccessCounters {
    /// Returns the index of a page's counter. A page without one gets a counter if any is left.
    pub fn counter(&mut self, page: PageKey, entries: u64) -> Option<usize> {
        let (block, at) = ((page.0, page.1, page.2 / BLOCK_PAGES), page.2 % BLOCK_PAGES);
        let known = self.of_page.get(&block).map_or(0, |block| block[at as usize]);
        if known > 0 {
            return Some(known as usize - 1);
        }
        if self.pages.len() as u64 >= entries {
            return None;
        }
        self.pages.push(page);
        let fresh = || vec![0; BLOCK_PAGES as usize];
        let of_page = self.of_page.entry(block).or_insert_with(fresh);
        of_page[at as usize] = self.pages.len() as u32;
        Some(self.pages.len() - 1)
    }
}

/// The counters of all nodes.
#[derive(Clone, Debug)]
pub struct AccessCounters {
    counters_per_node: u64,
    /// Tables by node of the memory.
    tables: Vec<NodeAccessCounters>,
    /// Lines that found no free counter.
    lost_lines: u64,
}

impl AccessCounters {
    /// Creates `entries` counters for each node.
    pub fn new(nodes: usize, entries: u64) -> Self {
        Self {
            counters_per_node: entries,
            tables: vec![NodeAccessCounters::default(); nodes],
            lost_lines: 0,
        }
    }

    /// Returns whether there are any counters.
    pub fn is_on(&self) -> bool {
        self.counters_per_node > 0
    }

    /// Returns the number of lines that were not counted because no counter was left.
    pub fn lost_lines(&self) -> u64 {
        self.lost_lines
    }

    /// Counts accesses of a CPU of node `from` to lines of a part of a region, on pages drawn at
    /// random.
    pub fn sample(
        &mut self,
        rng: &mut SplitMix64,
        from: usize,
        part: &GranuleRange,
        region: &MemoryRegion,
        lines: u64,
    ) {
        if !self.is_on() || lines == 0 {
            return;
        }
        let pages = region.pages_of_granules(part.first..part.first + part.granules);
        let count = (pages.end - pages.start).max(1);
        let draws = SAMPLED_PAGES.min(lines);
        for draw in 0..draws {
            let page = pages.start + rng.next_u64() % count;
            let share = lines / draws + u64::from(draw < lines % draws);
            if let Some(to) = region.page(page).node() {
                self.count((part.space, part.region, page), from, to, share);
            }
        }
    }

    /// Counts accesses of CPUs of node `from` to a page on node `to`.
    pub fn count(&mut self, page: PageKey, from: usize, to: usize, lines: u64) {
        let nodes = self.tables.len();
        let table = &mut self.tables[to];
        let Some(counter) = table.counter(page, self.counters_per_node) else {
            self.lost_lines = self.lost_lines.saturating_add(lines);
            return;
        };
        table.lines.resize(table.pages.len() * nodes, 0);
        let sum = &mut table.lines[counter * nodes + from];
        *sum = sum.saturating_add(lines);
    }

    /// Reads the counters of a node's memory, by page and by node of the CPUs, and clears them.
    pub fn read_and_clear(&mut self, node: usize) -> Vec<(PageKey, usize, u64)> {
        let nodes = self.tables.len();
        let table = std::mem::take(&mut self.tables[node]);
        let counts = table.pages.iter().zip(table.lines.chunks(nodes));
        let of_page = |(&page, counts): (&PageKey, &[u64])| {
            let counts: Vec<_> = counts.iter().copied().enumerate().collect();
            let counts = counts.into_iter().filter(|&(_, lines)| lines > 0);
            counts.map(move |(from, lines)| (page, from, lines))
        };
        let mut seen: Vec<_> = counts.flat_map(of_page).collect();
        seen.sort_unstable();
        seen
    }
}

/// The value of one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageAccesses {
    /// The process of the page.
    pub pid: Pid,
    /// The address of the page.
    pub address: u64,
    /// The node of the CPUs.
    pub from: NodeId,
    /// Lines that these CPUs read or wrote.
    pub lines: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: pages get counters in order of first access until the counters are read. Accesses to
    /// the other pages are lost, and reported as lost.
    #[test]
    fn counters_are_first_come_first_served() {
        let mut counters = AccessCounters::new(2, 2);
        let page = |page| (0, 0, page);
        counters.count(page(1), 0, 1, 5);
        counters.count(page(2), 0, 1, 6);
        counters.count(page(3), 0, 1, 7); // the third of two
        counters.count(page(1), 1, 1, 8);
        counters.count(page(4), 1, 0, 9); // of another node's table
        let seen = |page, from, lines| ((0, 0, page), from, lines);
        assert_eq!(counters.read_and_clear(1), [seen(1, 0, 5), seen(1, 1, 8), seen(2, 0, 6)]);
        assert_eq!(counters.lost_lines, 7);
        assert_eq!(counters.read_and_clear(1), []);
        assert_eq!(counters.read_and_clear(0), [seen(4, 1, 9)]);
    }
}
