//! Worlds that run.

use crate::common::{machine, scenario, triad, workload};
use nodeward_machine::{Machine, MovePagesCall};
use nodeward_model::{NodeId, Pid};
use nodeward_scenario::{AccessPattern, Scenario, SharedLines, Workload, WorkloadKind};
use nodeward_sim::{SimMachine, World};

const MS: u64 = 1_000_000;

/// Goal: the same seed is the same run.
#[test]
fn equal_seeds_are_equal_runs() {
    let scenario = scenario(machine(2, 4, 4), triad(12, 64));
    let run = || {
        let mut world = World::new(&scenario, 7);
        world.run_until(500 * MS);
        (world.trace_hash(), world.counters.clone())
    };
    let (first, second) = (run(), run());
    println!("{:?}", first.1);
    assert_eq!(first, second);
    assert!(first.1.local_lines > 0);
}

/// Goal: page faults, lives and counters of accesses come out equal, run by run.
#[test]
fn equal_seeds_are_equal_allocations() {
    let access = AccessPattern { parallel_milli: 4000, compute_ps: 500, writes_milli: 100 };
    let mut scenario = scenario(machine(2, 4, 1), workload(WorkloadKind::PageFault, 3, 32));
    scenario.machine.params.counter_entries = 100;
    let mut lives = workload(
        WorkloadKind::Compile { compute_ns: MS, access, lives: 0, varies_milli: 0 },
        4,
        40,
    );
    lives.name = "lives".to_owned();
    scenario.workloads.push(lives);
    let run = |seed| {
        let mut world = World::new(&scenario, seed);
        world.run_until(200 * MS);
        let seen = world.take_accesses(0);
        assert!(!seen.is_empty());
        (world.trace_hash(), world.counters.clone(), world.latencies.clone(), seen)
    };
    let (first, second, other) = (run(7), run(7), run(8));
    assert!(first == second);
    assert!(first.3 != other.3, "which pages are drawn depends on the seed");
}

fn with(kind: WorkloadKind, threads: u32, mib: u64) -> Scenario {
    let workload = Workload { name: "it".to_owned(), kind, threads, ..triad(1, mib) };
    scenario(machine(2, 4, 4), workload)
}

const ACCESS: AccessPattern =
    AccessPattern { parallel_milli: 4000, compute_ps: 500, writes_milli: 0 };

const STREAM: WorkloadKind = WorkloadKind::Stream {
    message_bytes: 16 << 10,
    buffer_bytes: 8 << 10,
    window: 5,
    compute_ns: 2000,
    on_one_cpu: false,
};

/// Goal: every kind of program does its work, in a process that is wider than a node, too.
#[test]
fn programs_work() {
    let kinds = [
        WorkloadKind::Random { access: ACCESS, hot_touches_milli: 800, hot_bytes_milli: 100 },
        WorkloadKind::Phases { access: ACCESS, phase_bytes: 1 << 20, shared_milli: 100 },
        WorkloadKind::MovingSet { access: ACCESS, window_bytes: 8 << 20, stays_ns: 50_000_000 },
        WorkloadKind::PingPong { message_bytes: 16 << 10, compute_ns: 2000 },
        STREAM,
    ];
    for kind in kinds {
        let mut world = World::new(&with(kind.clone(), 6, 64), 3);
        world.run_until(500_000_000);
        let half = world.counters.work_done.get("it").copied().unwrap_or(0);
        world.run_until(1_000_000_000);
        let all = world.counters.work_done["it"];
        assert!(half > 0 && all > half + half / 4, "{kind:?}: {half}, then {all}");
    }
}

/// Goal: what threads read in order are the others' parts, each once in a pass. Four threads stay
/// on two nodes of two CPUs, with their parts. Each goes through its own part and those of three
/// others, of which one is on its node: half of the lines are local. (At random, a quarter of the
/// other lines would be of its own part, too.)
#[test]
fn parts_of_others_are_read_in_order() {
    let shared = SharedLines { in_order_milli: 750, ..SharedLines::default() };
    let kind = WorkloadKind::Triad { access: ACCESS, shared, passes: 3 };
    let mut scenario = with(kind, 4, 64);
    (scenario.workloads[0].populated, scenario.workloads[0].bound) = (true, true);
    scenario.machine = machine(2, 2, 1);
    let mut world = World::new(&scenario, 3);
    world.run_until(2_000 * MS);
    let [local, remote] = [world.counters.local_lines, world.counters.remote_lines];
    let all: u64 = 3 * 4 * (64 << 20) / 64; // three passes of four threads
    assert_eq!(local + remote, all);
    assert!(local.abs_diff(remote) < all / 1000, "{local} and {remote}");
}

/// Goal: two processes that share all their memory, each with a thread in two pools, have it once,
/// first the parts of the first pool. On two nodes of two CPUs the first process begins on node 0,
/// the other on node 1, so with first touch quarters of it lie on nodes 0, 1, 0 and 1. What the
/// threads of a pool share is its half: on the nodes of the pools all lines are local.
#[test]
fn pools_have_their_parts_of_one_segment() {
    let shared = SharedLines { random_milli: 500, ..SharedLines::default() };
    let kind = WorkloadKind::Triad { access: ACCESS, shared, passes: 0 };
    let mut scenario = with(kind, 2, 64);
    let load = &mut scenario.workloads[0];
    (load.processes, load.pools, load.one_segment, load.populated) = (2, 2, true, true);
    assert_eq!(load.mapped_bytes(4096), Some(64 << 20));
    scenario.machine = machine(2, 2, 1);
    let machine = SimMachine::new(&scenario, 3);
    let nodes = machine.inspect(|world| world.segment_nodes("it"));
    let expected = [0, 1, 0, 1].map(|node| [Some(NodeId(node)); 4096]).concat();
    assert_eq!(nodes, expected);
    let pids: Vec<Pid> = machine.processes().iter().map(|process| process.pid).collect();
    let halves = machine.inspect(|world| world.parts_of_segment(pids[1], 2));
    assert_eq!(halves.iter().map(Vec::len).collect::<Vec<_>>(), [8192; 2]);
    assert!(halves[0].last() < halves[1].first());
    let pools = [NodeId(0), NodeId(1)];
    pids.iter().for_each(|&pid| assert!(machine.with_world(|world| world.bind_pools(pid, &pools))));
    let process = machine.open_process(pids[0]).unwrap();
    for (node, part) in pools.into_iter().zip(&halves) {
        let mut call = MovePagesCall::new(true);
        part.iter().for_each(|&address| call.push(address, node));
        process.move_pages(&call).unwrap();
    }
    let lines = [200 * MS, 400 * MS].map(|until_ns| {
        machine.run_until(until_ns);
        machine.inspect(|world| [world.counters.local_lines, world.counters.remote_lines])
    });
    assert!(lines[1][0] > lines[0][0], "{lines:?}");
    assert_eq!(lines[1][1], lines[0][1]);
}

/// Goal: threads of phases wait for each other: seven on four CPUs are as slow as eight.
#[test]
fn phases_end_with_the_slowest() {
    let rate = |threads: u32| {
        let kind = WorkloadKind::Phases { access: ACCESS, phase_bytes: 4 << 20, shared_milli: 0 };
        let mut scenario = with(kind, threads, 64);
        scenario.machine = machine(1, 4, 4);
        scenario.machine.params.llc_bytes = 0;
        let mut world = World::new(&scenario, 3);
        world.populate();
        world.run_until(2_000_000_000);
        world.counters.work_done["it"] / u64::from(threads)
    };
    // A phase of 65,536 lines at 0.5 + 90 / 4 = 23 ns takes 1.5 ms on a CPU of its own, and twice
    // that where two share one: for five threads as for eight.
    let (four, five, eight) = (rate(4), rate(5), rate(8));
    assert!(five < four * 3 / 4, "{five} of {four}");
    assert!(eight.abs_diff(five) < five / 4, "{eight} and {five}");
}

/// Goal: a message takes at least what sender and receiver do for it, and the wake-up.
#[test]
fn round_trips_are_measured() {
    let kind = WorkloadKind::PingPong { message_bytes: 4096, compute_ns: 5000 };
    let mut world = World::new(&with(kind, 2, 1), 3);
    world.run_until(100_000_000);
    let trips = &world.latencies.round_trip;
    // There and back: an answer of 5 us and two switches of 1.5 us.
    let median = trips.value_at_quantile(0.5);
    assert!(median > 8000 && median < 40_000, "{median}");
    assert!(trips.len() > 2000, "{}", trips.len());
}
