//! Starts the processes of the workloads.

use nodeward_scenario::{Workload, WorkloadKind};

use super::compile::compile_program;
use super::database::{Database, SegmentTouches};
use super::duty_cycle::with_duty_cycle;
use super::hog::Hog;
use super::moving_set::MovingSet;
use super::page_fault::PageFault;
use super::phases::Phases;
use super::ping_pong::PingPong;
use super::random::Random;
use super::stream::{Message, MessageStream};
use super::threads::{
    WorkloadSlot, allowed_cpus, assign_first_home, cpus_of_same_node, create_segment, map_memory,
    new_thread, parts_of_thread,
};
use super::triad::Triad;
use crate::cpu::Op;
use crate::hardware::CpuIndexSet;
use crate::ids::SpaceId;
use crate::world::{TaskProgram, World};

/// Starts all workloads.
pub fn start_workloads(world: &mut World) {
    let workloads = world.scenario().workloads.clone();
    for (index, workload) in workloads.iter().enumerate() {
        let segment = create_segment(world, workload);
        for process in 0..workload.processes {
            start_process(world, index, workload, (process, segment));
        }
    }
}

fn start_process(
    world: &mut World,
    index: usize,
    workload: &Workload,
    (process, segment): (u32, Option<SpaceId>),
) {
    let allowed = allowed_cpus(world, workload);
    let cpus = first_cpus(world, workload, &allowed, process);
    let space = map_memory(world, workload, segment);
    for thread in 0..workload.threads {
        // Spread over the CPUs at first, as fork does.
        let place = match &workload.begins {
            None => (process * workload.threads + thread) as usize,
            Some(_) => thread as usize,
        };
        let slot = WorkloadSlot { workload: index, process, generation: 0 };
        let Some(program) = program(world, workload, slot, space, thread) else { continue };
        let cpu = cpus[place % cpus.len()];
        let mut task = new_thread(world, workload, slot, space);
        task.cpu = cpu;
        if workload.bound {
            task.allowed = cpus_of_same_node(world, &allowed, cpu);
        }
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

/// Returns the CPUs on which the threads of a process begin.
fn first_cpus(
    world: &World,
    workload: &Workload,
    allowed: &CpuIndexSet,
    process: u32,
) -> Vec<usize> {
    let begins = workload.begins.as_ref();
    let node = begins.and_then(|nodes| nodes.iter().nth(process as usize % nodes.len().max(1)));
    let node = node.and_then(|node| world.machine.index_of(node));
    let is_there = |&cpu: &usize| node.is_none_or(|node| world.layout.node_of(cpu) == node);
    allowed.iter().filter(is_there).collect()
}

/// Creates the program of a thread. `None` if the workload has no such thread.
fn program(
    world: &mut World,
    workload: &Workload,
    slot: WorkloadSlot,
    space: SpaceId,
    thread: u32,
) -> Option<Box<dyn TaskProgram>> {
    let place = (thread, workload.threads);
    let program: Box<dyn TaskProgram> = match workload.kind {
        WorkloadKind::Triad { access, shared, passes } => {
            let (memory, parts) = parts_of_thread(world, workload, (slot, space), thread);
            Box::new(Triad::new(world, memory, parts, access, (shared, passes)))
        }
        WorkloadKind::PageFault => Box::new(PageFault::new(world, space, place)),
        WorkloadKind::Hog => Box::new(Hog::new(world, space, place)),
        // A short-lived process has one thread.
        WorkloadKind::Compile { .. } if thread == 0 => {
            return compile_program(world, workload, slot, space);
        }
        WorkloadKind::Random { access, hot_touches_milli, hot_bytes_milli } => {
            let hot = (hot_touches_milli, hot_bytes_milli);
            Box::new(Random::new(world, space, place, access, hot))
        }
        WorkloadKind::Database { access, segment_milli, own_part_milli, .. } => {
            let segment = world.spaces[space].segments.first()?.space;
            let among_all = slot.process * workload.threads + thread;
            let places = [place, (among_all, workload.processes * workload.threads)];
            let process = (slot.process, workload.processes);
            let touches = (access, SegmentTouches { segment_milli, own_part_milli });
            Box::new(Database::new(world, [space, segment], places, process, touches))
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
    Some(with_duty_cycle(program, workload))
}
