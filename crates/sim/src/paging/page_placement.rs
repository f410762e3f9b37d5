//! The node that a fresh page comes from.

use nodeward_model::Nodemask;
use nodeward_scenario::MemoryPlacement;

use crate::ids::SpaceId;
use crate::memory::huge_pages;
use crate::world::World;

impl World {
    /// Returns the node that a fresh page comes from. `None` if no allowed node has room.
    ///
    /// As in the kernel, the next node comes before other CPUs' lists, and base pages of the node
    /// come before huge ones of other nodes.
    pub(crate) fn allocation_node(
        &self,
        cpu: usize,
        space: SpaceId,
        region: usize,
        page: u64,
        huge: bool,
    ) -> Option<usize> {
        let here = self.memory_home(space).unwrap_or(self.layout.node_of(cpu));
        let nearest = &self.layout.memory_nodes_by_distance[here];
        let pages = huge_pages(self.machine.params.page_bytes);
        let has_room = |&node: &usize| match huge {
            _ if self.memory.zones[node].is_offline => false,
            _ if !self.cpuset_allows(space, node) => false,
            true => self.memory.zones[node].free_pages >= pages,
            false => {
                self.memory.zones[node].free_pages > 0 || self.memory.pages_in_list(cpu, node) > 0
            }
        };
        let is_in = |nodes: &Nodemask, node: usize| nodes.contains(self.layout.node_ids[node]);
        match &self.spaces[space].regions[region].placement {
            MemoryPlacement::FirstTouch
            | MemoryPlacement::PopulatedOn(_)
            | MemoryPlacement::PopulatedFarthest => {
                let mut nodes = nearest.iter().copied().take(if huge { 1 } else { usize::MAX });
                nodes.find(has_room)
            }
            MemoryPlacement::Bind(nodes) => {
                nearest.iter().copied().find(|&node| is_in(nodes, node) && has_room(&node))
            }
            MemoryPlacement::Interleave(nodes) => {
                let index = if huge { page / pages } else { page };
                let turn = (index % nodes.len().max(1) as u64) as usize;
                let id = nodes.iter().nth(turn)?;
                let first = self.layout.node_ids.iter().position(|&node| node == id);
                let others = nearest.iter().copied().filter(|&node| is_in(nodes, node));
                first.into_iter().chain(others).find(has_room)
            }
        }
    }
}
