//! Threads and memory of the processes of a workload.

use nodeward_scenario::{InitialHome, MemoryPlacement, Workload, WorkloadKind};

use crate::cpu::Task;
use crate::hardware::CpuIndexSet;
use crate::ids::SpaceId;
use crate::memory::{Interleaving, MemoryRegion, SegmentMapping};
use crate::world::World;

/// The address at which the memory of a process begins.
const START: u64 = 0x7f00_0000_0000;
/// The address at which a process maps a segment: 64 TiB, the most that machines have, above that.
const SEGMENT_START: u64 = START + (64 << 40);

/// Minimum number of granules in which the residency of a region is counted.
const GRANULES: u64 = 64;

/// The position of a process in a workload: short-lived processes follow each other there.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadSlot {
    /// The workload, by index.
    pub workload: usize,
    /// The process of the workload.
    pub process: u32,
    /// Number of earlier processes in this position.
    pub generation: u32,
}

/// Creates an address space. `segment` is the segment that its process maps, if it maps one.
pub fn map_memory(world: &mut World, workload: &Workload, segment: Option<SpaceId>) -> SpaceId {
    let own = (!workload.one_segment).then(|| own_region(world, workload));
    let group = if workload.own_memcgs { world.spaces.len() } else { 0 };
    let space = world.add_space(workload.name.clone(), own.into_iter().collect(), group);
    world.spaces[space].cpuset = workload.cpuset.clone();
    if let Some(segment) = segment {
        world.map_segment(space, SegmentMapping { space: segment, start: SEGMENT_START });
    }
    space
}

/// Creates the region that a process has for itself.
fn own_region(world: &World, workload: &Workload) -> MemoryRegion {
    let size = (workload.memory_bytes, workload.threads);
    let mut region = region(world, workload, size, &workload.placement);
    if workload.scattered {
        let parts = u64::from(workload.threads);
        region.interleaving = Interleaving { parts, unit_pages: region.folio_pages };
    }
    region
}

/// Creates the segment that all processes of a workload map, if they map one.
pub fn create_segment(world: &mut World, workload: &Workload) -> Option<SpaceId> {
    let (bytes, placement) = match &workload.kind {
        WorkloadKind::Database { segment_bytes, segment_placement, .. } => {
            (*segment_bytes, segment_placement)
        }
        _ if workload.one_segment => (workload.memory_bytes, &workload.placement),
        _ => return None,
    };
    let threads = workload.processes.saturating_mul(workload.threads);
    let region = region(world, workload, (bytes, threads), placement);
    // No workload has a name with a slash.
    Some(world.add_segment(format!("/dev/shm/{}", workload.name), region))
}

/// Creates a region that threads fill together.
fn region(
    world: &World,
    workload: &Workload,
    (bytes, threads): (u64, u32),
    placement: &MemoryPlacement,
) -> MemoryRegion {
    let page_bytes = world.machine.params.page_bytes;
    let granules = GRANULES.max(u64::from(threads));
    let nodes = world.machine.nodes.len();
    let pages = bytes.div_ceil(page_bytes);
    let mut region = MemoryRegion::new(START, pages, page_bytes, nodes, granules);
    region.faults_huge = workload.huge;
    region.folio_pages = (workload.folio_bytes / page_bytes).max(1);
    region.placement = placement.clone();
    region
}

/// Returns the memory that the parts of a thread lie in, the place of its own part among those of
/// all threads there, and the place of the part that it shares.
pub fn parts_of_thread(
    world: &World,
    workload: &Workload,
    (slot, space): (WorkloadSlot, SpaceId),
    thread: u32,
) -> (SpaceId, [(u32, u32); 2]) {
    let segment = world.spaces[space].segments.first().filter(|_| workload.one_segment);
    let Some(segment) = segment else { return (space, [(thread, workload.threads), (0, 1)]) };
    let Workload { processes, threads, pools, .. } = *workload;
    let of_pool = threads / pools;
    let (pool, in_pool) = (thread / of_pool, thread % of_pool);
    let number = (pool * processes + slot.process) * of_pool + in_pool;
    (segment.space, [(number, processes * threads), (pool, pools)])
}

pub fn new_thread(world: &World, workload: &Workload, slot: WorkloadSlot, space: SpaceId) -> Task {
    let (space, workload_of) = (Some(space), Some(slot.workload));
    let home = initial_home(world, workload, slot.process);
    Task { space, workload: workload_of, home, ..Task::new(allowed_cpus(world, workload)) }
}

/// Gives a task without a home a home, if the scheduler assigns homes.
pub fn assign_first_home(world: &mut World, task: &mut Task) {
    if let (None, Some(space)) = (task.home, task.space) {
        task.home = world.first_home(space, world.layout.node_of(task.cpu));
    }
}

pub fn allowed_cpus(world: &World, workload: &Workload) -> CpuIndexSet {
    let is_allowed = |node: usize| {
        let id = world.layout.node_ids[node];
        [&workload.nodes, &workload.cpuset].into_iter().flatten().all(|nodes| nodes.contains(id))
    };
    let cpus = 0..world.layout.cpus.len();
    CpuIndexSet::of(cpus.filter(|&cpu| is_allowed(world.layout.node_of(cpu))))
}

/// Returns the CPUs of a thread that stays on the node of its first CPU.
pub fn cpus_of_same_node(world: &World, allowed: &CpuIndexSet, cpu: usize) -> CpuIndexSet {
    let node = world.layout.node_of(cpu);
    CpuIndexSet::of(allowed.iter().filter(|&cpu| world.layout.node_of(cpu) == node))
}

fn initial_home(world: &World, workload: &Workload, process: u32) -> Option<usize> {
    match workload.home {
        InitialHome::None => None,
        InitialHome::On(id) => world.machine.index_of(id),
        InitialHome::Spread => {
            let with_cpus = |&node: &usize| !world.layout.cpus_of_node[node].is_empty();
            let nodes: Vec<_> = (0..world.machine.nodes.len()).filter(with_cpus).collect();
            nodes.get(process as usize % nodes.len().max(1)).copied()
        }
    }
}
