//! The raw state of a machine for invariant checkers, independent of the machine's own reports.

use nodeward_model::{NodeId, Pid};

use super::sim_machine::SimMachine;
use crate::ids::TaskId;
use crate::memory::{AddressSpace, MemoryRegion, SegmentMapping};
use crate::output::Census;
use crate::programs::thread_pages;
use crate::world::World;

/// A page that a process has in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageView {
    /// Its address.
    pub address: u64,
    /// Its node.
    pub node: NodeId,
    /// Whether it is moving to another node.
    pub is_in_flight: bool,
    /// Base pages of its folio.
    pub folio_pages: u64,
}

impl World {
    /// Returns the pages that a process has in memory, those of segments left out, one by one in
    /// order of address. Empty if there is no such process.
    pub fn pages_of(&self, pid: Pid) -> Vec<PageView> {
        let space = self.space_of(pid).map(|space| &self.spaces[space]);
        let pages = |region: &MemoryRegion| {
            let mut views: Vec<_> =
                (0..region.pages).filter_map(|page| self.page_view(region, page)).collect();
            views.sort_unstable_by_key(|view| view.address);
            views
        };
        space.into_iter().flat_map(|space| &space.regions).flat_map(pages).collect()
    }

    /// Returns the node of each page of the segment that the processes of a workload map, in order;
    /// `None` for a page that is not in memory. Empty if they map none.
    pub fn segment_nodes(&self, workload: &str) -> Vec<Option<NodeId>> {
        let process = self.spaces.iter().find(|space| space.name == workload && !space.ended);
        let mapping = process.and_then(|space| space.segments.first());
        let region = mapping.map(|mapping| &self.spaces[mapping.space].regions[0]);
        let node = |region: &MemoryRegion, page| {
            region.page(page).node().map(|node| self.layout.node_ids[node])
        };
        let nodes =
            |region: &MemoryRegion| (0..region.pages).map(|page| node(region, page)).collect();
        region.map(nodes).unwrap_or_default()
    }

    /// Returns the addresses of each thread's part of the memory of a process, with the node where
    /// the thread is. Empty if there is no such process.
    pub fn parts_of_threads(&self, pid: Pid) -> Vec<(NodeId, Vec<u64>)> {
        let Some(space) = self.space_of(pid) else { return Vec::new() };
        let AddressSpace { regions, tasks, .. } = &self.spaces[space];
        let Some(region) = regions.first() else { return Vec::new() };
        let part = |(number, &task): (u32, &TaskId)| {
            let node = self.layout.node_of(self.tasks[task as usize].cpu);
            let pages = thread_pages(self, space, (number, tasks.len() as u32));
            (self.layout.node_ids[node], pages.map(|page| region.address_of(page)).collect())
        };
        (0..).zip(tasks).map(part).collect()
    }

    /// Returns the addresses of the pages of a process that it shares with none, and those of its
    /// part of a segment, if each process that maps it has an equal part. Empty if there is no such
    /// process.
    pub fn own_addresses(&self, pid: Pid) -> [Vec<u64>; 2] {
        let Some(space) = self.space_of(pid) else { return Default::default() };
        let AddressSpace { regions, segments, .. } = &self.spaces[space];
        let all = |region: &MemoryRegion| -> Vec<_> {
            (0..region.pages).map(|page| region.address_of(page)).collect()
        };
        let own = regions.iter().flat_map(all).collect();
        let part = |&SegmentMapping { space: segment, start }: &SegmentMapping| {
            let region = &self.spaces[segment].regions[0];
            let mappers = self.mappers(segment);
            let number = mappers.iter().position(|&mapper| mapper == space).unwrap_or(0) as u64;
            let cut = |number: u64| region.pages * number / mappers.len().max(1) as u64;
            let page_bytes = self.machine.params.page_bytes;
            (cut(number)..cut(number + 1)).map(move |page| start + page * page_bytes)
        };
        [own, segments.iter().flat_map(part).collect()]
    }

    /// Returns the addresses of each of `parts` parts, equal in size, of the segment that a process
    /// maps. Empty if the process maps none.
    pub fn parts_of_segment(&self, pid: Pid, parts: u32) -> Vec<Vec<u64>> {
        let segments = self.space_of(pid).map(|space| &self.spaces[space].segments);
        let Some(&SegmentMapping { space, start }) = segments.and_then(|all| all.first()) else {
            return Vec::new();
        };
        let page_bytes = self.machine.params.page_bytes;
        let address = |page| start + page * page_bytes;
        let part = |number| thread_pages(self, space, (number, parts)).map(address).collect();
        (0..parts).map(part).collect()
    }

    /// Returns the page of a process at an address, or `None` if there is none.
    pub fn page_at(&self, pid: Pid, address: u64) -> Option<PageView> {
        let regions = &self.spaces[self.space_of(pid)?].regions;
        let region = regions.iter().rfind(|region| region.start <= address)?;
        self.page_view(region, region.page_at(address - region.start)?)
    }

    /// Returns a page of a region, or `None` if it is absent.
    fn page_view(&self, region: &MemoryRegion, page: u64) -> Option<PageView> {
        let byte = region.page(page);
        byte.node().map(|node| PageView {
            address: region.address_of(page),
            node: self.layout.node_ids[node],
            is_in_flight: byte.is_in_flight(),
            folio_pages: if region.is_huge(page) { region.chunk_pages() } else { 1 },
        })
    }
}

impl SimMachine {
    /// Ends all waits after a number of events. A call that has not ended by then reports that the
    /// process is gone. For callers that must not wait forever.
    pub fn limit_events(&self, events: u64) {
        self.shared.lock().world.events_max = events;
    }

    /// Processes up to `events` events that are due until a virtual time (ns). Returns whether that
    /// was all of them.
    pub fn run_events(&self, until_ns: u64, events: u32) -> bool {
        self.shared.lock().world.run_events(until_ns, events)
    }
}

impl SimMachine {
    /// Returns the present state, as [`World::census`] does.
    pub fn census(&self) -> Census {
        self.inspect(World::census)
    }

    /// Reads the world without advancing virtual time.
    pub fn inspect<T>(&self, at: impl FnOnce(&World) -> T) -> T {
        at(&self.shared.lock().world)
    }
}
