//! Memory that is populated at the start.

use nodeward_scenario::MemoryPlacement;

use crate::ids::{SpaceId, TaskId};
use crate::memory::PageByte;
use crate::world::World;

impl World {
    /// Populates all memory that programs would touch first, in no virtual time: for machines of
    /// which only the steady state is of interest. Where a node has no room, the nearest one is
    /// used. A program without room anywhere faults in the rest itself.
    pub fn populate(&mut self) {
        (0..self.tasks.len()).for_each(|task| self.populate_task(task as TaskId));
    }

    /// Populates the memory of one task.
    pub(crate) fn populate_task(&mut self, task: TaskId) {
        let Some(mut program) = self.programs[task as usize].take() else { return };
        program.populate(self, task);
        self.programs[task as usize] = Some(program);
    }

    /// Places pages of a region as a CPU's faults would. Returns the number of pages that found
    /// room.
    pub(crate) fn place_pages(
        &mut self,
        cpu: usize,
        (space, region): (SpaceId, usize),
        pages: std::ops::Range<u64>,
    ) -> u64 {
        let mut page = pages.start;
        while page < pages.end {
            let chunk_pages = self.spaces[space].regions[region].chunk_pages();
            let end = ((page / chunk_pages + 1) * chunk_pages).min(pages.end);
            let node = self.node_with_room(cpu, (space, region), page / chunk_pages, end - page);
            let Some(node) = node else { break };
            self.memory.zones[node].free_pages -= end - page;
            let region = &mut self.spaces[space].regions[region];
            if region.faults_huge && end - page == chunk_pages {
                region.set_huge(page, PageByte::on(node));
            } else {
                region.set(page..end, PageByte::on(node));
            }
            page = end;
        }
        page - pages.start
    }

    fn node_with_room(
        &self,
        cpu: usize,
        (space, region): (SpaceId, usize),
        turn: u64,
        pages: u64,
    ) -> Option<usize> {
        let nearest = &self.layout.memory_nodes_by_distance[self.layout.node_of(cpu)];
        let zone = |node: usize| &self.memory.zones[node];
        let has_room = |&node: &usize| {
            !zone(node).is_offline
                && zone(node).free_pages >= pages
                && self.cpuset_allows(space, node)
        };
        let id = |node: usize| self.layout.node_ids[node];
        let near = nearest.iter().copied();
        match &self.spaces[space].regions[region].placement {
            MemoryPlacement::FirstTouch => near.into_iter().find(has_room),
            MemoryPlacement::Bind(nodes) => near.filter(|&n| nodes.contains(id(n))).find(has_room),
            MemoryPlacement::PopulatedFarthest => near.rev().find(has_room),
            MemoryPlacement::Interleave(nodes) | MemoryPlacement::PopulatedOn(nodes) => {
                let mut among: Vec<_> = near.filter(|&node| nodes.contains(id(node))).collect();
                among.sort_unstable();
                let first = turn as usize % among.len().max(1);
                among.iter().cycle().skip(first).take(among.len()).copied().find(has_room)
            }
        }
    }
}
