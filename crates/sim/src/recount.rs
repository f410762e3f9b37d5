//! A machine as checkers see it: from the raw state, past what the machine tells of itself.

use nodeward_model::{NodeId, Pid};

use crate::machine::SimMachine;
use crate::space::Region;
use crate::world::World;

/// A page that a process has in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageView {
    /// Its address.
    pub address: u64,
    /// Where it is.
    pub node: NodeId,
    /// Whether it is on its way to another node.
    pub is_in_flight: bool,
    /// Base pages of the folio that it is a part of.
    pub folio_pages: u64,
}

impl World {
    /// The pages that a process has in memory, one by one in the order of their addresses; none if
    /// there is no such process.
    pub fn pages_of(&self, pid: Pid) -> Vec<PageView> {
        let spaces = self.spaces.iter().filter(|space| space.pid == pid && !space.ended);
        let pages = |region| (0..).map_while(move |page| self.view(region, page)).flatten();
        spaces.flat_map(|space| &space.regions).flat_map(pages).collect()
    }

    /// The page of a process at an address; none if it has none there.
    pub fn page_at(&self, pid: Pid, address: u64) -> Option<PageView> {
        let mut spaces = self.spaces.iter().filter(|space| space.pid == pid && !space.ended);
        let regions = &spaces.next()?.regions;
        let region = regions.iter().rfind(|region| region.start <= address)?;
        self.view(region, (address - region.start) / self.machine.params.page_bytes).flatten()
    }

    /// A page of a region, if it is there; none beyond the end.
    fn view(&self, region: &Region, page: u64) -> Option<Option<PageView>> {
        let byte = (page < region.pages).then(|| region.page(page))?;
        Some(byte.node().map(|node| PageView {
            address: region.start + page * self.machine.params.page_bytes,
            node: self.layout.node_ids[node],
            is_in_flight: byte.is_in_flight(),
            folio_pages: if region.is_huge(page) { region.chunk_pages() } else { 1 },
        }))
    }
}

impl SimMachine {
    /// Ends all waits once so many events have happened: calls that have not ended by then say that
    /// the process is gone. For who must not wait for ever.
    pub fn limit_events(&self, events: u64) {
        self.stage.lock().world.events_max = events;
    }

    /// Lets so many events happen of those that are due until a time, in virtual nanoseconds.
    /// Returns whether that was all.
    pub fn run_some(&self, until_ns: u64, events: u32) -> bool {
        self.stage.lock().world.run_some(until_ns, events)
    }
}
