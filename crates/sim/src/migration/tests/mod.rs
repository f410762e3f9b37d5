//! Tests of moves on machines of a few CPUs: what they share.

mod accounts;
mod conservation;
mod copies;
mod costs;
mod interrupts;

use std::ops::{Deref, Range};
use std::sync::{Arc, Mutex};

use nodeward_model::{CpuId, NodeId};
use nodeward_scenario::{MachineSpec, NodeSpec, Params, Scenario, SchedulerKind};

use crate::cpu::{Op, Task, TaskState};
use crate::hardware::CpuIndexSet;
use crate::ids::{SpaceId, TaskId};
use crate::memory::{Folio, MemoryRegion, PageByte};
use crate::migration::batch_migration::BatchMigration;
use crate::migration::outcome::{ATTEMPTS, MigrationResult};
use crate::statistics::CpuTimeKind;
use crate::world::{TaskProgram, World};

/// Creates a machine of two or more nodes with `cpus` CPUs without SMT and 1 GiB each.
fn machine(nodes: u32, cpus: u32) -> MachineSpec {
    let node = |id: u32| NodeSpec {
        id: NodeId(id),
        cpus: (id * cpus..(id + 1) * cpus).map(CpuId).collect(),
        threads_per_core: 1,
        memory_bytes: 1 << 30,
        latency_ns: None,
        bandwidth_bytes_per_s: None,
    };
    let distance = |from, to| if from == to { 10 } else { 20 };
    let row = |from| (0..nodes).map(|to| distance(from, to)).collect();
    MachineSpec {
        nodes: (0..nodes).map(node).collect(),
        distances: (0..nodes).map(row).collect(),
        links: Vec::new(),
        params: plain(),
    }
}

/// Parameters without costs of locks and lists. Copies are bounded by `copy` alone: 64 bytes take 8
/// ns, so a base page of 64 lines takes 512 ns.
fn plain() -> Params {
    Params {
        switch_ns: 0,
        zone_hold_ps: 0,
        zone_handoff_ns: 0,
        lru_hold_ns: 0,
        list_ps: 0,
        copy_bytes_per_s: 8_000_000_000,
        copy_parallel_milli: 1_000_000,
        ..Params::default()
    }
}

fn world(machine: MachineSpec) -> World {
    let scenario = Scenario {
        name: "test".to_owned(),
        about: String::new(),
        machine,
        workloads: Vec::new(),
        scheduler: SchedulerKind::NumaUnaware,
        numa_balancing: false,
        actions: Vec::new(),
        faults: None,
        time_ns: 1_000_000_000,
        until_done: false,
        groups: Vec::new(),
        sample_ns: 1_000_000,
        report: Vec::new(),
    };
    World::new(&scenario, 1)
}

/// Creates a process with a number of pages on a node.
fn process(world: &mut World, node: usize, pages: u64, huge: bool) -> SpaceId {
    let nodes = world.machine.nodes.len();
    let mut region = MemoryRegion::new(1 << 30, pages, 4096, nodes, 64);
    match huge {
        true => (0..pages).step_by(512).for_each(|page| region.set_huge(page, PageByte::on(node))),
        false => region.set(0..pages, PageByte::on(node)),
    }
    world.memory.zones[node].free_pages -= pages;
    let space = world.spaces.len();
    world.add_space("process".to_owned(), vec![region], space)
}

fn folios(pages: u64, size: u64) -> Vec<Folio> {
    let folio = |page| Folio { region: 0, pages: page..page + size };
    (0..pages).step_by(size as usize).map(folio).collect()
}

fn job(space: SpaceId, pages: u64, size: u64) -> MoveJob {
    let folios = folios(pages, size);
    MoveJob { space, folios, to: 1 }
}

/// A job: folios of one space, to one node.
struct MoveJob {
    space: SpaceId,
    folios: Vec<Folio>,
    to: usize,
}

/// The result of a job, and its start and end.
#[derive(Clone, Debug)]
struct FinishedMove {
    result: MigrationResult,
    time_ns: Range<u64>,
}

impl Deref for FinishedMove {
    type Target = MigrationResult;

    fn deref(&self) -> &MigrationResult {
        &self.result
    }
}

/// Receives the result of a job.
type FinishedMoveCell = Arc<Mutex<Option<FinishedMove>>>;

/// Program that carries out a job and ends.
struct TestMover {
    migration: BatchMigration,
    began_ns: u64,
    finished: FinishedMoveCell,
}

impl TaskProgram for TestMover {
    fn next(&mut self, world: &mut World, task: TaskId) -> Op {
        if let Some(op) = self.migration.next(world, task) {
            return op;
        }
        let ended = FinishedMove {
            result: self.migration.take_result(),
            time_ns: self.began_ns..world.now_ns,
        };
        *self.finished.lock().unwrap() = Some(ended);
        Op::Exit
    }
}

fn start_move(world: &mut World, job: MoveJob) -> (TaskId, FinishedMoveCell) {
    let mut migration = BatchMigration::new(job.space, job.to, ATTEMPTS);
    migration.add(job.folios);
    let end = FinishedMoveCell::default();
    let mover = TestMover { migration, began_ns: world.now_ns, finished: Arc::clone(&end) };
    (world.start_kernel_task(None, Box::new(mover)), end)
}

/// Carries out a job to its end. Returns its time from the first instruction on.
fn run_move(world: &mut World, job: MoveJob) -> (FinishedMove, u64) {
    let selected: u64 = job.folios.iter().map(Folio::len).sum();
    let (mover, end) = start_move(world, job);
    for _ in 0..100_000 {
        world.run_until(world.now_ns() + 100_000);
        if world.tasks[mover as usize].state == TaskState::Ended {
            break;
        }
    }
    let moved = end.lock().unwrap().clone().expect("it has ended");
    assert_eq!(moved.account.selected(), selected);
    let ns = moved.time_ns.end - moved.time_ns.start - world.machine.params.wake_ns;
    (moved, ns)
}

/// Checks that each page of each node is in one place.
fn check_pages(world: &World) {
    world.check_pages().unwrap();
}

/// A thread of a process that computes without end on one CPU.
struct Spin;

impl TaskProgram for Spin {
    fn next(&mut self, _world: &mut World, _task: TaskId) -> Op {
        Op::Busy(CpuTimeKind::User, 1_000_000)
    }
}

fn spin(world: &mut World, space: SpaceId, cpu: usize) -> TaskId {
    let mut task = Task::new(CpuIndexSet::of([cpu]));
    task.space = Some(space);
    world.start_task(task, Box::new(Spin))
}

/// Moves pages on a machine of 2 x `cpus` CPUs with these parameters, of which the process uses the
/// first `busy`. Returns the result and the number of interrupts.
fn timed_move(
    cpus: u32,
    busy: usize,
    pages: u64,
    size: u64,
    params: &[(&str, &str)],
) -> (FinishedMove, u64) {
    let mut machine = machine(2, cpus);
    params.iter().for_each(|(name, value)| machine.params.set(name, value, None).unwrap());
    let mut world = world(machine);
    let space = process(&mut world, 0, pages, size > 1);
    (0..busy).for_each(|cpu| {
        spin(&mut world, space, cpu);
    });
    world.run_until(100_000);
    let (moved, _) = run_move(&mut world, job(space, pages, size));
    check_pages(&world);
    (moved, world.counters.flush_ipis)
}

fn time_of(cpus: u32, pages: u64, size: u64, params: &[(&str, &str)]) -> u64 {
    let (moved, _) = timed_move(cpus, 0, pages, size, params);
    assert_eq!(moved.account.moved, pages);
    moved.time_ns.end - moved.time_ns.start - 2000 // from the first instruction on
}
