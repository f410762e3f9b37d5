//! An independent count of all pages, for invariant checkers outside this crate.
//!
//! Pages in use are counted page by page, and the sums that the machine works with are given beside
//! them for comparison.

use nodeward_model::{NodeId, Pid};

use crate::faults::StaleContents;
use crate::ids::SpaceId;
use crate::memory::AddressSpace;
use crate::world::World;

/// Maximum number of stale pages that a census lists; it counts all.
const STALE_LISTED_MAX: usize = 16;

/// State of all memory at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census {
    /// The moment, in virtual nanoseconds.
    pub at_ns: u64,
    /// Memory by node, in the order of the machine.
    pub nodes: Vec<NodeCensus>,
    /// The processes that have not ended, or still have pages.
    pub processes: Vec<ProcessCensus>,
    /// Base pages that became visible as copies. `None` without a table `[faults]` in the scenario.
    pub mapped_copies: Option<u64>,
    /// Visible folios whose contents differ from what was last written to them: the first few.
    pub stale: Vec<StalePage>,
    /// The number of all such folios.
    pub stale_folios: u64,
}

/// A node's memory, in base pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeCensus {
    /// The node.
    pub node: NodeId,
    /// All pages of the node. `None` while its memory is off.
    pub capacity: u64,
    /// Free pages that are in no list.
    pub free: u64,
    /// Pages in lists of CPUs, counted list by list.
    pub in_lists: u64,
    /// The same, from the sum that the zone keeps.
    pub in_lists_by_counter: u64,
    /// Pages on their way from a list to the zone.
    pub being_freed: u64,
    /// Pages allocated for copies that are not visible yet, as the machine counts them.
    pub copy_targets: u64,
    /// The same, counted copy by copy. `None` without a table `[faults]` in the scenario.
    pub copy_targets_counted: Option<u64>,
    /// Pages in buffers, or taken by tests and never used, as the machine counts them.
    pub kernel_pages: u64,
    /// Pages in buffers, counted run by run.
    pub in_buffers: u64,
    /// Pages of processes, counted page by page.
    pub in_use: u64,
    /// The same, as the machine counts it.
    pub in_use_by_counter: u64,
}

/// A process's memory, in base pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessCensus {
    /// Its pid.
    pub pid: Pid,
    /// Its name.
    pub name: String,
    /// Whether it has ended and still has pages that were not freed yet.
    pub ended: bool,
    /// Mapped pages.
    pub mapped: u64,
    /// Pages by node, in the order of the machine. Pages out of sight count where they were.
    pub pages: Vec<u64>,
    /// Pages out of sight.
    pub in_flight: u64,
    /// Pages that are marked to move to the node of the next access.
    pub lazy: u64,
}

/// A visible folio whose contents differ from what was last written to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StalePage {
    /// The process.
    pub pid: Pid,
    /// Its first address.
    pub address: u64,
    /// Stamp of what was written to it last.
    pub written: u64,
    /// Stamp of what it holds; 0 if nothing was copied to it.
    pub holds: u64,
}

impl World {
    /// Returns the present state, counted anew. The time grows with the number of pages of mixed
    /// places.
    pub fn census(&self) -> Census {
        let nodes = self.machine.nodes.len();
        let (mut in_use, mut by_sum) = (vec![0; nodes], vec![0; nodes]);
        let mut processes = Vec::new();
        for space in &self.spaces {
            let process = process_census(space, nodes);
            add_counts(&mut in_use, &process.pages);
            add_counts(&mut by_sum, &space.count_all(nodes)[..nodes]);
            if !process.ended || process.pages.iter().any(|&pages| pages > 0) {
                processes.push(process);
            }
        }
        let contents = &self.fault_model.contents;
        let copies = contents.is_enabled().then(|| contents.pages_for_copies(nodes));
        let mut census: Vec<_> = (0..nodes).map(|node| self.node_census(node)).collect();
        for (index, node) in census.iter_mut().enumerate() {
            node.in_use = in_use[index];
            node.in_use_by_counter = by_sum[index];
            node.copy_targets_counted = copies.as_ref().map(|copies| copies[index]);
        }
        let stale = self.stale_pages();
        Census {
            at_ns: self.now_ns,
            nodes: census,
            processes,
            mapped_copies: contents.is_enabled().then_some(contents.mapped_copies),
            stale_folios: stale.len() as u64,
            stale: stale.into_iter().take(STALE_LISTED_MAX).collect(),
        }
    }

    /// Checks that no page was lost or created: the free, listed, held and mapped pages of a node
    /// add up to all its pages.
    ///
    /// # Errors
    /// The first node where they do not, with its counts.
    pub fn check_pages(&self) -> Result<(), String> {
        let (nodes, page_bytes) = (self.machine.nodes.len(), self.machine.params.page_bytes);
        let mut used = vec![0; nodes + 2];
        for space in &self.spaces {
            used.iter_mut().zip(space.count_all(nodes)).for_each(|(sum, count)| *sum += count);
        }
        for (node, zone) in self.memory.zones.iter().enumerate() {
            let owed = self.memory.huge_pages_being_freed(node, page_bytes);
            let (free, listed) = (zone.free_pages, self.memory.pages_in_lists(node) + owed);
            if zone.listed_pages + owed != listed {
                let sum = zone.listed_pages + owed;
                return Err(format!("node {node} has {listed} pages in lists, but {sum} in sum"));
            }
            let held = self.memory.copy_targets[node] + self.memory.kernel_pages[node];
            let (used, all) = (used[node], zone.managed_pages);
            if free + listed + held + used != all {
                return Err(format!(
                    "node {node} has {all} pages, but {free} are free, {listed} in lists, {held} \
                     held and {used} in use"
                ));
            }
        }
        Ok(())
    }

    /// Returns the counts of a node, without its pages in use.
    fn node_census(&self, node: usize) -> NodeCensus {
        let zone = &self.memory.zones[node];
        NodeCensus {
            node: self.layout.node_ids[node],
            capacity: zone.managed_pages,
            free: zone.free_pages,
            in_lists: self.memory.pages_in_lists(node),
            in_lists_by_counter: zone.listed_pages(),
            being_freed: self.memory.huge_pages_being_freed(node, self.machine.params.page_bytes),
            copy_targets: self.memory.copy_targets[node],
            copy_targets_counted: None,
            kernel_pages: self.memory.kernel_pages[node],
            in_buffers: self.streams.iter().map(|window| window.pages_on(node)).sum(),
            in_use: 0,
            in_use_by_counter: 0,
        }
    }

    /// Returns all stale folios whose pages still exist.
    fn stale_pages(&self) -> Vec<StalePage> {
        let tell = |(&(space, region, page), stale): (&(SpaceId, usize, u64), &StaleContents)| {
            let StaleContents { written, holds } = *stale;
            let space = &self.spaces[space];
            let region = &space.regions[region];
            let is_there = page < region.pages && region.page(page).node().is_some();
            let address = region.address_of(page);
            is_there.then_some(StalePage { pid: space.pid, address, written, holds })
        };
        self.fault_model.contents.stale.iter().filter_map(tell).collect()
    }
}

fn process_census(space: &AddressSpace, nodes: usize) -> ProcessCensus {
    let mut sums = vec![0; nodes + 2];
    space.regions.iter().for_each(|region| region.recount(&mut sums));
    let (lazy, in_flight) = (sums[nodes], sums[nodes + 1]);
    sums.truncate(nodes);
    ProcessCensus {
        pid: space.pid,
        name: space.name.clone(),
        ended: space.ended,
        mapped: space.regions.iter().map(|region| region.pages).sum(),
        pages: sums,
        in_flight,
        lazy,
    }
}

fn add_counts(sums: &mut [u64], counts: &[u64]) {
    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}
