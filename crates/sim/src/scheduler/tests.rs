//! Tests of scheduler decisions and of the cost of turns.

use nodeward_scenario::{
    AccessPattern, InitialHome, MachineSpec, MemoryPlacement, NodeSpec, Params, Scenario,
    SchedulerKind, Workload, WorkloadKind,
};
use proptest::prelude::*;

use crate::cpu::{Op, Task, TaskState};
use crate::hardware::CpuIndexSet;
use crate::ids::TaskId;
use crate::memory::PageByte;
use crate::statistics::CpuTimeKind;
use crate::world::{TaskProgram, World};

/// Creates two nodes of `cpus` CPUs with nearly unlimited memory, and `tasks` tasks with random
/// accesses.
fn world(cpus: u32, threads_per_core: u32, tasks: u32, scheduler: SchedulerKind) -> World {
    let node = |id: u32| NodeSpec {
        id: nodeward_model::NodeId(id),
        cpus: (id * cpus..(id + 1) * cpus).map(nodeward_model::CpuId).collect(),
        threads_per_core,
        memory_bytes: 1 << 30,
        latency_ns: None,
        bandwidth_bytes_per_s: None,
    };
    let access = AccessPattern { parallel_milli: 1000, compute_ps: 0, writes_milli: 0 };
    let kind = WorkloadKind::Random { access, hot_touches_milli: 0, hot_bytes_milli: 0 };
    let workload = Workload {
        name: "jumps".to_owned(),
        kind,
        processes: tasks,
        threads: 1,
        memory_bytes: 16 << 20,
        huge: false,
        folio_bytes: 0,
        placement: MemoryPlacement::FirstTouch,
        nodes: None,
        home: InitialHome::Spread,
        start_ns: 0,
        own_memcgs: true,
        populated: false,
        cpuset: None,
        duty_cycle: None,
        bound: false,
        scattered: false,
        one_segment: false,
        begins: None,
        pools: 1,
    };
    let scenario = Scenario {
        name: "test".to_owned(),
        about: String::new(),
        machine: MachineSpec {
            nodes: vec![node(0), node(1)],
            distances: vec![vec![10, 20], vec![20, 10]],
            links: Vec::new(),
            params: Params::default(),
        },
        workloads: vec![workload],
        scheduler,
        numa_balancing: false,
        actions: Vec::new(),
        faults: None,
        time_ns: 1_000_000_000,
        until_done: false,
        groups: Vec::new(),
        sample_ns: 1_000_000,
        report: Vec::new(),
    };
    let mut world = World::new(&scenario, 5);
    world.populate();
    world
}

/// Program that works for a time and ends.
struct KernelWork(Option<u64>);

impl TaskProgram for KernelWork {
    fn next(&mut self, _: &mut World, _: TaskId) -> Op {
        self.0.take().map_or(Op::Exit, |ns| Op::Busy(CpuTimeKind::Kernel, ns))
    }
}

fn worker(world: &mut World, cpu: usize, ns: u64) -> TaskId {
    let task = Task { urgent: true, ..Task::new(CpuIndexSet::of([cpu])) };
    world.start_task(task, Box::new(KernelWork(Some(ns))))
}

/// Checks that the state by node agrees with CPUs and run queues, and that no CPU stays idle while
/// a task waits that may run there.
fn check(world: &World) {
    for (node, load) in world.sched.nodes.iter().enumerate() {
        let cpus = &world.layout.cpus_of_node[node];
        let waiting: usize = cpus.iter().map(|&cpu| world.cpus[cpu].run_queue.len()).sum();
        let running = cpus.iter().filter(|&&cpu| world.cpus[cpu].running.is_some()).count();
        assert_eq!((load.queued, load.running), (waiting as u64, running as u64));
        for (at, &cpu) in cpus.iter().enumerate() {
            let siblings = &world.layout.cpus[cpu].siblings;
            let core = world.is_idle(cpu) && siblings.iter().all(|&other| world.is_idle(other));
            assert_eq!(load.idle.contains(at), world.is_idle(cpu));
            assert_eq!(load.idle_cores.contains(at), core);
            assert_eq!(load.queued_cpus.contains(at), world.cpus[cpu].run_queue.len() > 0);
            for (_, _, task) in world.cpus[cpu].run_queue.entries() {
                let allowed = &world.tasks[task as usize].allowed;
                let idle = allowed.iter().find(|&other| world.is_idle(other));
                let runs = world.cpus[cpu].running;
                let made_way = runs.is_some_and(|task| world.tasks[task as usize].urgent);
                assert!(idle.is_none() || runs.is_none() || made_way, "{idle:?} is idle");
            }
        }
        for home in 0..world.machine.nodes.len() {
            let is_home = |task: TaskId| world.tasks[task as usize].home == Some(home);
            let waiting = cpus.iter().flat_map(|&cpu| world.cpus[cpu].run_queue.entries());
            let strays = waiting.filter(|place| is_home(place.2)).count() as u64;
            assert_eq!(load.queued_by_home[home], strays);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Goal: whatever runs, sums and sets by node are correct at all times.
    #[test]
    fn what_is_kept_by_node_is_true(
        cpus in 1_u32..6, threads in 1_u32..3, tasks in 1_u32..14, home: bool, picks: u64,
    ) {
        let scheduler = if home { SchedulerKind::HomeAware } else { SchedulerKind::NumaUnaware };
        let mut world = world(cpus, threads, tasks, scheduler);
        for step in 1..60_u64 {
            world.run_until(step * 3_700_000);
            check(&world);
            let pick = (picks >> (step % 60)) as usize;
            let all = world.cpus.len();
            match pick % 4 {
                0 => drop(worker(&mut world, pick % all, 50_000)),
                1 => world.set_cpus_allowed(pick as u32 % tasks, CpuIndexSet::of([pick % all])),
                2 => world.set_home(pick as u32 % tasks, Some(pick % 2)),
                _ => world.set_cpus_allowed(pick as u32 % tasks, CpuIndexSet::of(0..all)),
            }
        }
    }
}

/// Goal: an urgent task gets a CPU at once, in the middle of another task's turn.
#[test]
fn urgent_tasks_come_first() {
    let mut world = world(1, 1, 2, SchedulerKind::NumaUnaware);
    world.run_until(100_500_000);
    let task = worker(&mut world, 0, 10_000);
    // A switch of 1.5 us, then 10 us.
    world.run_until(100_500_000 + 11_500);
    assert_eq!(world.tasks[task as usize].state, TaskState::Ended);
}

/// Goal: a task runs on its allowed CPUs only.
#[test]
fn allowed_cpus_are_kept() {
    let mut world = world(2, 1, 3, SchedulerKind::NumaUnaware);
    world.set_cpus_allowed(0, CpuIndexSet::of([3]));
    for step in 1..100 {
        world.run_until(step * 2_000_000);
        assert_eq!(world.tasks[0].cpu, 3);
    }
    assert!(world.tasks[0].cpu_time_ns > 90_000_000);
}

/// Goal: a flush costs the translations that the next turn needs.
#[test]
fn forgotten_translations_are_loaded_again() {
    let kernel_ns = |flushes: bool| {
        let mut world = world(1, 1, 1, SchedulerKind::NumaUnaware);
        for step in 1..=10 {
            world.run_until(step * 5_000_000);
            if flushes {
                let cpu = world.tasks[0].cpu;
                world.cpus[cpu].mark_tlb_flushed(0);
            }
        }
        world.run_until(60_000_000);
        world.counters.spent_ns[CpuTimeKind::Kernel as usize]
    };
    // 16 MiB have 4096 pages, more than the 1536 entries: 1536 * 25 ns, ten times.
    assert_eq!(kernel_ns(true) - kernel_ns(false), 10 * 1536 * 25);
}

/// Goal: a task that touches a page in flight waits until it is woken, and continues with the same
/// lines.
#[test]
fn pages_in_flight_are_waited_for() {
    let mut world = world(1, 1, 1, SchedulerKind::NumaUnaware);
    world.run_until(10_000_000);
    let byte = world.spaces[0].regions[0].page(0);
    world.spaces[0].regions[0].set(0..2048, byte.in_flight());
    world.run_until(20_000_000);
    assert_eq!(world.spaces[0].migration_waiters, [0]);
    assert_eq!(world.tasks[0].state, TaskState::Waiting);
    let ran = world.tasks[0].cpu_time_ns;
    world.run_until(30_000_000);
    assert_eq!(world.tasks[0].cpu_time_ns, ran);
    world.spaces[0].regions[0].set(0..2048, byte.not_in_flight());
    world.spaces[0].migration_waiters.clear();
    assert!(matches!(world.tasks[0].op, Some(Op::Access(_))));
    world.wake(0);
    world.run_until(40_000_000);
    // 10 ms without the wake-up of 2 us and the turn that is not over.
    assert!(world.tasks[0].cpu_time_ns > ran + 5_000_000);
    assert_eq!(byte, PageByte::on(0));
}

/// A scenario of endless short lives of 50 us of CPU time, in some places, on one CPU.
fn short_lives(places: u32, memory_bytes: u64) -> Scenario {
    let mut scenario = world(1, 1, 1, SchedulerKind::NumaUnaware).scenario().clone();
    let access = AccessPattern { parallel_milli: 1000, compute_ps: 0, writes_milli: 0 };
    let compute_ns = 50_000;
    scenario.workloads[0] = Workload {
        kind: WorkloadKind::Compile { compute_ns, access, lives: 0, varies_milli: 0 },
        processes: places,
        memory_bytes,
        nodes: Some([nodeward_model::NodeId(0)].into_iter().collect()),
        ..scenario.workloads[0].clone()
    };
    scenario
}

/// Goal: a task that waits behind programs that follow each other forever has its turn: a fifth of
/// the CPU, with four of them. Half of that is enough here, because lives end in the kernel, which
/// is not preempted.
#[test]
fn short_lives_starve_nobody() {
    let mut scenario = short_lives(4, 64 << 10);
    let access = AccessPattern { parallel_milli: 1000, compute_ps: 0, writes_milli: 0 };
    let long = Workload {
        name: "long".to_owned(),
        kind: WorkloadKind::Random { access, hot_touches_milli: 0, hot_bytes_milli: 0 },
        processes: 1,
        ..scenario.workloads[0].clone()
    };
    scenario.workloads.push(long);
    let mut world = World::new(&scenario, 5);
    world.run_until(500_000_000);
    let of_long = |task: &&Task| task.workload == Some(1);
    let ran_ns: u64 = world.tasks.iter().filter(of_long).map(|task| task.cpu_time_ns).sum();
    assert!(ran_ns > 50_000_000, "{ran_ns} ns of 500 ms"); // 500 ms / 5 / 2
}

/// Goal: a process that forks the next one and then waits for a lock in its exit completes that
/// exit. In each place at most one lives and one exits.
#[test]
fn short_lives_come_to_their_ends() {
    let mut scenario = short_lives(3, 64 << 10);
    let params = &mut scenario.machine.params;
    (params.pcp_batch, params.pcp_high, params.pcp_tuning) = (1, 1, 0); // each page by itself
    params.slice_ns = 150_000; // a life of 100 us fits; a third of it is an edge
    let mut world = World::new(&scenario, 5);
    world.run_until(100_000_000);
    let lives = world.tasks.len();
    let there = world.tasks.iter().filter(|task| task.state != TaskState::Ended).count();
    assert!(lives > 100 && there <= 2 * 3, "{there} of {lives} are there");
}
