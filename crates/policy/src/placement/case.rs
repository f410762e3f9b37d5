//! A machine to measure decisions on: many CPUs, nodes and threads, and nothing where it belongs.

use std::collections::BTreeMap;

use nodeward_model::NodeId;
use nodeward_model::topology::Distances;

use super::{Affinity, Entity, EntityId, KernelPreference, NodeState, Snapshot, Target, Thread};

const PAGE_BYTES: u64 = 4096;
/// 8 GiB for each CPU.
const PAGES_PER_CPU: u64 = 1 << 21;

/// The size of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The number of CPUs.
    pub cpus: u32,
    /// The number of nodes.
    pub nodes: u32,
    /// The number of threads of all processes.
    pub threads: u32,
    /// The number of threads of each process.
    pub threads_each: u32,
}

impl Size {
    /// The machine that SPEC.md speaks of.
    pub const LARGE: Self = Self { cpus: 1024, nodes: 16, threads: 10_000, threads_each: 8 };
    /// The same in groups of five threads.
    pub const GROUPS: Self = Self { cpus: 1024, nodes: 16, threads: 10_000, threads_each: 5 };
}

/// A machine of this size whose processes have their memory on two nodes and their threads on
/// others. All numbers come from positions, so it is the same each time.
pub fn misplaced(size: Size) -> Snapshot {
    let cpus = (size.cpus / size.nodes.max(1)).max(1);
    let pages = PAGES_PER_CPU * u64::from(cpus);
    let node = NodeState { cpus, pages, room_pages: pages / 2, ..NodeState::default() };
    let ids = || (0..size.nodes).map(NodeId);
    let square = |from: usize, to: usize| match (from == to, from / 4 == to / 4) {
        (true, _) => 10,
        (false, true) => 16,
        (false, false) => 22,
    };
    let entities = size.threads.div_ceil(size.threads_each.max(1));
    Snapshot {
        at_ns: 0,
        page_bytes: PAGE_BYTES,
        nodes: ids().map(|id| (id, node)).collect(),
        stalled_ppm: None,
        kernel_balances: false,
        distances: Some(Distances::from_rule(ids(), square)),
        affinities: vec![Affinity(ids().map(|id| (id, cpus)).collect())],
        entities: (0..entities).map(|number| entity(number, size, pages)).collect(),
        segments: Vec::new(),
        others_ppm: 0,
    }
}

/// A machine of [`Size::GROUPS`]: 2,000 groups, one in four of which is to be on one of two nodes,
/// and for each ten of them a process whose memory is where its threads are at home.
pub fn grouped() -> Snapshot {
    let mut snapshot = misplaced(Size::GROUPS);
    let mut processes = Vec::new();
    for (number, group) in (0_u32..).zip(&mut snapshot.entities) {
        if number.is_multiple_of(4) {
            let nodes = [number, number + 1].map(|node| NodeId(node % Size::GROUPS.nodes));
            group.target = Target::Within(nodes.into_iter().collect());
        }
        if number.is_multiple_of(10) {
            let id = u64::from(number);
            processes.push(Entity {
                id: EntityId(1_000_000 + id),
                threads: Vec::new(),
                target: Target::WithGroups((id..id + 10).map(EntityId).collect()),
                ..group.clone()
            });
        }
    }
    snapshot.entities.extend(processes);
    snapshot
}

fn entity(number: u32, size: Size, node_pages: u64) -> Entity {
    let node = |offset: u32| NodeId((number + offset) % size.nodes.max(1));
    let entities = u64::from(size.threads.div_ceil(size.threads_each.max(1)).max(1));
    let pages = node_pages * u64::from(size.nodes) / 4 / entities;
    let first = number * size.threads_each;
    let left = size.threads.saturating_sub(first).min(size.threads_each);
    let thread = |offset: u32| Thread {
        tid: first + offset + 1,
        node: node(offset % 3 + 1),
        load_ppm: 50_000 + (first + offset) * 7919 % 50_000,
        near: None,
        kernel_prefers: KernelPreference::Anywhere,
        wait_ppm: 0,
        affinity: 0,
    };
    Entity {
        id: EntityId(u64::from(number)),
        run_ns: 10_000_000_000,
        threads: (0..left).map(thread).collect(),
        pages: BTreeMap::from([(node(0), pages / 3 * 2), (node(5), pages / 3)]),
        pages_at_ns: 1,
        may_hold: (0..size.nodes).map(NodeId).collect(),
        ..Entity::default()
    }
}
