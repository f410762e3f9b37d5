//! Memory of nodes that is taken offline and brought back (memory hotplug).
//!
//! As in Linux (`offline_pages`): from the beginning on nothing is allocated on the node. Its pages
//! are moved to other nodes, as far as these have room and the pages are not pinned. When all of it
//! is free, the memory goes offline. Linux retries until a signal interrupts it; here the number of
//! attempts is bounded.

use std::collections::VecDeque;

use crate::cpu::Op;
use crate::ids::{SpaceId, TaskId};
use crate::migration::ProcessMigration;
use crate::statistics::CpuTimeKind;
use crate::world::{TaskProgram, World};

/// Maximum number of attempts to move all remaining pages.
const TRIES: u32 = 20;
/// Pause between attempts, for pins and moves of others to end, in virtual nanoseconds.
const PAUSE_NS: u64 = 1_000_000;

impl World {
    /// Begins to take the memory of a node (by index) offline.
    pub(crate) fn start_memory_offline(&mut self, action: usize, node: usize) {
        let record = self.begin_hotplug(action);
        let zone = &mut self.memory.zones[node];
        if std::mem::replace(&mut zone.is_offline, true) {
            return self.end_hotplug(record, 0, 0);
        }
        let ways = VecDeque::new();
        let program = MemoryOffline { record, node, tries: 0, routes: ways, migration: None };
        self.start_kernel_task(None, Box::new(program));
    }

    /// Brings the memory of a node (by index) back online. Cancels a removal that is in progress.
    pub(crate) fn bring_memory_online(&mut self, action: usize, node: usize) {
        let record = self.begin_hotplug(action);
        let zone = &mut self.memory.zones[node];
        zone.is_offline = false;
        let pages = std::mem::take(&mut zone.offline_pages);
        zone.managed_pages += pages;
        zone.free_pages += pages;
        self.end_hotplug(record, pages, 0);
    }

    /// Returns the processes that have pages on a node.
    fn spaces_on(&self, node: usize) -> Vec<SpaceId> {
        let nodes = self.machine.nodes.len();
        let is_there = |&space: &SpaceId| self.spaces[space].count_all(nodes)[node] > 0;
        (0..self.spaces.len()).filter(is_there).collect()
    }
}

/// Program that empties a node.
struct MemoryOffline {
    record: usize,
    node: usize,
    /// Attempts so far.
    tries: u32,
    /// Processes whose pages still have to move, each with a destination node.
    routes: VecDeque<(SpaceId, usize)>,
    migration: Option<ProcessMigration>,
}

impl MemoryOffline {
    /// Takes the memory offline if it is free, else begins the next attempt or gives up.
    fn next_try(&mut self, world: &mut World, task: TaskId) -> Op {
        let cpu = world.tasks[task as usize].cpu;
        let drained_ns = world.mm().drain_all_lists(cpu);
        let zone = &mut world.memory.zones[self.node];
        let used = zone.managed_pages - zone.free_pages.min(zone.managed_pages);
        if !zone.is_offline || used > 0 && self.tries == TRIES {
            zone.is_offline = false;
            world.end_hotplug(self.record, 0, used);
            return Op::Exit;
        }
        if used == 0 {
            let pages = std::mem::take(&mut zone.managed_pages);
            zone.free_pages = 0;
            zone.offline_pages += pages; // another action may have been first
            world.end_hotplug(self.record, pages, 0);
            return Op::Exit;
        }
        self.tries += 1;
        let near = world.layout.memory_nodes_by_distance[self.node].iter().copied();
        let others = near.filter(|&to| to != self.node && world.has_online_memory(to));
        let with_room = others.filter(|&to| world.memory.free(to) > 0);
        let spaces = world.spaces_on(self.node);
        self.routes =
            with_room.flat_map(|to| spaces.iter().map(move |&space| (space, to))).collect();
        match self.tries {
            1 => Op::Busy(CpuTimeKind::Kernel, drained_ns.max(1)),
            _ => Op::Sleep(world.now_ns + PAUSE_NS),
        }
    }
}

impl TaskProgram for MemoryOffline {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        loop {
            if let Some(walk) = &mut self.migration {
                if let Some(op) = walk.next(world, task, self.node) {
                    return op;
                }
                self.migration = None;
            }
            match self.routes.pop_front() {
                Some((space, to)) => self.migration = Some(ProcessMigration::new(space, to)),
                None => return self.next_try(world, task),
            }
        }
    }
}
