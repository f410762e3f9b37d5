//! Starts the processes of the workloads.

use nodeward_model::Pid;
use nodeward_scenario::{InitialHome, Workload, WorkloadKind};

use super::compile::{Compile, CompileWork};
use super::duty_cycle::DutyCycled;
use super::hog::Hog;
use super::moving_set::MovingSet;
use super::page_fault::PageFault;
use super::phases::Phases;
use super::ping_pong::PingPong;
use super::random::Random;
use super::stream::{Message, MessageStream};
use super::triad::Triad;
use crate::cpu::{CpuIndexSet, Op, Task, TaskId};
use crate::memory::{AddressSpace, MemoryRegion, SpaceId};
use crate::world::{TaskProgram, World};

/// The pid of the first process.
pub const FIRST_PID: u32 = 1000;
/// The address at which the memory of a process begins.
pub const START: u64 = 0x7f00_0000_0000;
/// Minimum number of granules in which the residency of a region is counted.
pub const GRANULES: u64 = 64;

/// Starts all workloads.
pub fn start_workloads(world: &mut World) {
    let workloads = world.scenario().workloads.clone();
    for (index, workload) in workloads.iter().enumerate() {
        for process in 0..workload.processes {
            start_process(world, index, workload, process);
        }
    }
}

/// The position of a process in a workload: short-lived processes follow each other there.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadSlot {
    pub workload: usize,
    pub process: u32,
    /// Number of earlier processes in this position.
    pub generation: u32,
}

pub fn start_process(world: &mut World, index: usize, workload: &Workload, process: u32) {
    let allowed = allowed_cpus(world, workload);
    let cpus: Vec<_> = allowed.iter().collect();
    let space = map_memory(world, workload);
    for thread in 0..workload.threads {
        // Spread over the CPUs at first, as fork does.
        let place = (process * workload.threads + thread) as usize;
        let slot = WorkloadSlot { workload: index, process, generation: 0 };
        let Some(program) = program(world, workload, slot, space, thread) else { continue };
        let cpu = cpus[place % cpus.len()];
        let mut task = new_thread(world, workload, slot, space);
        task.cpu = cpu;
        if matches!(workload.kind, WorkloadKind::Stream { on_one_cpu: true, .. }) {
            task.cpu = cpus[place / 2 % cpus.len()];
            task.allowed = CpuIndexSet::of([task.cpu]);
        }
        assign_first_home(world, &mut task);
        task.op = (workload.start_ns > 0).then_some(Op::Sleep(workload.start_ns));
        let task = world.start_task(task, program);
        if workload.populated {
            world.populate_task(task);
        }
    }
}

/// Starts the next process of a workload whose processes are short-lived.
pub fn start_successor(world: &mut World, slot: WorkloadSlot, parent: TaskId) {
    let workload = world.scenario().workloads[slot.workload].clone();
    let space = map_memory(world, &workload);
    let Some(program) = program(world, &workload, slot, space, 0) else { return };
    let mut task = new_thread(world, &workload, slot, space);
    // A forked task begins with its parent's vruntime (`task_fork_fair`). If each began before the
    // queued tasks, a chain of short lives would starve them, and the parents' exits.
    let Task { cpu, vruntime_ns, .. } = world.tasks[parent as usize];
    (task.cpu, task.vruntime_ns) = (cpu, vruntime_ns);
    assign_first_home(world, &mut task);
    world.start_task(task, program);
}

/// Creates an address space.
pub fn map_memory(world: &mut World, workload: &Workload) -> SpaceId {
    let page_bytes = world.machine.params.page_bytes;
    let pages = workload.memory_bytes.div_ceil(page_bytes);
    let granules = GRANULES.max(u64::from(workload.threads));
    let nodes = world.machine.nodes.len();
    let mut region = MemoryRegion::new(START, pages, page_bytes, nodes, granules);
    region.faults_huge = workload.huge;
    region.folio_pages = (workload.folio_bytes / page_bytes).max(1);
    region.placement = workload.placement.clone();
    let group = if workload.own_memcgs { world.spaces.len() } else { 0 };
    let space = world.add_space(workload.name.clone(), vec![region], group);
    world.spaces[space].cpuset = workload.cpuset.clone();
    space
}

impl World {
    /// Adds a process, without threads, in a memory cgroup.
    pub(crate) fn add_space(
        &mut self,
        name: String,
        regions: Vec<MemoryRegion>,
        group: usize,
    ) -> SpaceId {
        let space = self.spaces.len();
        // There are many short-lived processes; pids are reused, as everywhere.
        let number = FIRST_PID + (space as u64 % u64::from(Pid::LIMIT - FIRST_PID)) as u32;
        self.spaces.push(AddressSpace {
            pid: Pid::new(number).expect("a small number"),
            name,
            regions,
            tlb_cpus: CpuIndexSet::default(),
            tasks: Vec::new(),
            memcg: group,
            migration_waiters: Vec::new(),
            exited_cpu_time_ns: 0,
            leader: None,
            work_done: 0,
            cpuset: None,
            frozen_tasks: Vec::new(),
            frozen: false,
            ended: false,
            tlb_cpus_version: 0,
        });
        space
    }
}

pub fn program(
    world: &mut World,
    workload: &Workload,
    slot: WorkloadSlot,
    space: SpaceId,
    thread: u32,
) -> Option<Box<dyn TaskProgram>> {
    let place = (thread, workload.threads);
    let program: Box<dyn TaskProgram> = match workload.kind {
        WorkloadKind::Triad { access } => Box::new(Triad::new(world, space, place, access)),
        WorkloadKind::PageFault => Box::new(PageFault::new(world, space, place)),
        WorkloadKind::Hog => Box::new(Hog::new(world, space, place)),
        // A short-lived process has one thread.
        WorkloadKind::Compile { compute_ns, access, lives, varies_milli } if thread == 0 => {
            let life = CompileWork::draw(world, space, compute_ns, varies_milli);
            Box::new(Compile::new(slot, lives, life, access))
        }
        WorkloadKind::Random { access, hot_touches_milli, hot_bytes_milli } => {
            let hot = (hot_touches_milli, hot_bytes_milli);
            Box::new(Random::new(world, space, place, access, hot))
        }
        WorkloadKind::Phases { access, phase_bytes, shared_milli } => {
            let phase = (phase_bytes, shared_milli);
            Box::new(Phases::new(world, space, place, access, phase))
        }
        WorkloadKind::MovingSet { access, window_bytes, stays_ns } => {
            let window = (window_bytes, stays_ns);
            Box::new(MovingSet::new(world, space, place, access, window))
        }
        WorkloadKind::PingPong { message_bytes, compute_ns } => {
            let message = (message_bytes, compute_ns);
            Box::new(PingPong::new(world, space, thread, message))
        }
        WorkloadKind::Stream { message_bytes, buffer_bytes, window, compute_ns, .. } => {
            let run = buffer_bytes.div_ceil(world.machine.params.page_bytes).max(1) as u32;
            let buffers = message_bytes.div_ceil(buffer_bytes.max(1)).max(1);
            let message = Message { buffers, buffer_pages: run, window, compute_ns };
            Box::new(MessageStream::new(world, space, thread, message))
        }
        WorkloadKind::Compile { .. } => return None,
    };
    Some(match workload.duty_cycle {
        None => program,
        Some(shifts) => Box::new(DutyCycled::new(program, shifts, workload.start_ns)),
    })
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

/// Returns the pages of thread `number` of `of`.
pub fn thread_pages(
    world: &World,
    space: SpaceId,
    (number, of): (u32, u32),
) -> std::ops::Range<u64> {
    let pages = world.spaces[space].regions[0].pages;
    let share = |n: u32| pages * u64::from(n) / u64::from(of.max(1));
    share(number)..share(number + 1)
}

pub fn allowed_cpus(world: &World, workload: &Workload) -> CpuIndexSet {
    let is_allowed = |node: usize| {
        let id = world.layout.node_ids[node];
        [&workload.nodes, &workload.cpuset].into_iter().flatten().all(|nodes| nodes.contains(id))
    };
    let cpus = 0..world.layout.cpus.len();
    CpuIndexSet::of(cpus.filter(|&cpu| is_allowed(world.layout.node_of(cpu))))
}

pub fn initial_home(world: &World, workload: &Workload, process: u32) -> Option<usize> {
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
