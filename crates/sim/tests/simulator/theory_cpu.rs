//! CPUs, memory and links of a world against theory.

use crate::common::{machine, scenario, triad};
use nodeward_model::NodeId;
use nodeward_scenario::{
    AccessPattern, InitialHome, MachineSpec, MemoryPlacement, Scenario, SchedulerKind, Workload,
    WorkloadKind,
};
use nodeward_sim::World;

const MS: u64 = 1_000_000;
/// Time at which everything has settled.
const SETTLED: u64 = 200 * MS;
/// Length of the measurement.
const SPAN: u64 = 1000 * MS;

/// Threads that touch random lines one after the other, in huge pages of 64 MiB each: 32
/// translations, far fewer than 1536.
fn chase(processes: u32) -> Workload {
    let access = AccessPattern { parallel_milli: 1000, compute_ps: 0, writes_milli: 0 };
    let kind = WorkloadKind::Random { access, hot_touches_milli: 0, hot_bytes_milli: 0 };
    Workload { name: "chase".to_owned(), kind, huge: true, ..triad(processes, 64) }
}

/// Removes caches and switch costs, to keep the arithmetic short.
fn plain(mut machine: MachineSpec) -> MachineSpec {
    machine.params.llc_bytes = 0;
    machine.params.switch_ns = 0;
    machine
}

fn world(scenario: &Scenario) -> World {
    let mut world = World::new(scenario, 1);
    world.populate();
    world
}

/// Returns the lines of a workload per second, after settling.
fn rate(scenario: &Scenario) -> u64 {
    let mut world = world(scenario);
    let name = &scenario.workloads[0].name;
    let done = |world: &World| world.counters.work_done.get(name).copied().unwrap_or(0);
    world.run_until(SETTLED);
    let before = done(&world);
    world.run_until(SETTLED + SPAN);
    done(&world) - before
}

fn assert_near(found: u64, expected: u64, within_milli: u64) {
    let difference = found.abs_diff(expected);
    assert!(difference * 1000 <= expected * within_milli, "{found} instead of {expected}");
}

fn on(workload: Workload, cpus: &str, memory: &str) -> Workload {
    let placement = MemoryPlacement::Bind(memory.parse().unwrap());
    Workload { nodes: Some(cpus.parse().unwrap()), placement, ..workload }
}

/// Goal: a thread that waits for each line gets one per latency, and with `parallel` lines in
/// flight that many.
#[test]
fn who_waits_for_memory_goes_at_its_latency() {
    // A second has 1e9 / 90 = 11,111,111 latencies. A load of 64 B / 90 ns = 0.7 GB/s of 100 GB/s
    // stretches by 0.007^2 / 16, which is nothing.
    let one = scenario(plain(machine(1, 4, 4)), chase(1));
    assert_near(rate(&one), 11_111_111, 1);
    let mut two = one.clone();
    let WorkloadKind::Random { access, .. } = &mut two.workloads[0].kind else { unreachable!() };
    access.parallel_milli = 2000;
    assert_near(rate(&two), 22_222_222, 1);
}

/// Goal: half the distance is half the wait.
#[test]
fn remote_waits_follow_the_distance() {
    // Distance 40: 90 ns * 4 = 360 ns, 2,777,777 lines; distance 20: 180 ns, 5,555,555.
    for (distance, expected) in [(40, 2_777_777), (20, 5_555_555)] {
        let mut machine = plain(machine(2, 1, 4));
        machine.distances = vec![vec![10, distance], vec![distance, 10]];
        let far = scenario(machine, on(chase(1), "0", "1"));
        // Turns of 3 ms are accounted for at their end.
        assert_near(rate(&far), expected, 3);
    }
}

/// Goal: twice the CPUs do twice the work until memory is saturated, and no more then.
#[test]
fn more_cpus_do_more_until_memory_is_full() {
    let throughput = |cpus: u32| rate(&scenario(plain(machine(1, cpus, 16)), chase(cpus)));
    // 16 CPUs take 16 * 0.71 = 11.4 GB/s of 100: stretched by 0.114^2 / 0.886 / 16 = 0.1 %.
    assert_near(throughput(16), 2 * throughput(8), 3);
    // Streams of 10 lines in flight request 64 B * 1.333 / (1 + 9) ns = 8.5 GB/s each: 32 of them
    // 273 GB/s, 64 of them 546 of the 100 GB/s that there are. With 64 B * 1.333 = 85.3 B a line
    // that is 1172 million lines.
    let streams = |cpus: u32| rate(&scenario(plain(machine(1, cpus, 16)), triad(cpus, 64)));
    assert_near(streams(2), 2 * streams(1), 15);
    assert_near(streams(64), streams(32), 30);
}

/// Goal: streams that saturate memory get its bandwidth, whatever the latency of a miss.
#[test]
fn who_fills_memory_gets_what_it_delivers() {
    // 100 GB/s / (64 B * 1.333) = 1172 million lines.
    for latency_ns in [90, 120] {
        let mut machine = plain(machine(1, 64, 16));
        machine.params.latency_ns = latency_ns;
        assert_near(rate(&scenario(machine, triad(64, 64))), 1_172_000_000, 30);
    }
}

/// Goal: once it has settled, load does not oscillate.
#[test]
fn load_does_not_swing() {
    let scenario = scenario(plain(machine(1, 64, 16)), triad(64, 64));
    let mut world = world(&scenario);
    world.run_until(SETTLED);
    let mut before = world.counters.local_lines;
    for step in 1..=10 {
        world.run_until(SETTLED + step * 100 * MS);
        let lines = world.counters.local_lines - before;
        before = world.counters.local_lines;
        // 100 ms of 1172 million a second. Turns of 3 ms are accounted for at their end, which is
        // one more or less of 33.
        assert_near(lines, 117_200_000, 50);
    }
}

/// Goal: two threads of a core do `smt-share` of a core each.
#[test]
fn a_core_of_two_threads_does_twice_the_share() {
    let mut machine = plain(machine(1, 2, 4));
    machine.nodes[0].threads_per_core = 2;
    machine.params.latency_ns = 0;
    machine.params.bandwidth_bytes_per_s = 1 << 50;
    let mut alone = scenario(machine, chase(1));
    let WorkloadKind::Random { access, .. } = &mut alone.workloads[0].kind else { unreachable!() };
    access.compute_ps = 10_000;
    let mut both = alone.clone();
    both.workloads[0].processes = 2;
    // 100 million lines of 10 ns; 2 * 0.62 = 1.24 times as much.
    assert_near(rate(&alone), 100_000_000, 1);
    assert_near(rate(&both), 124_000_000, 2);
}

/// Returns the work of each process; each is a workload of its own.
fn shares(machine: MachineSpec, tasks: u32) -> Vec<u64> {
    let mut scenario = scenario(plain(machine), chase(1));
    let one = scenario.workloads.remove(0);
    let named = |task: u32| Workload { name: format!("chase-{task}"), ..one.clone() };
    scenario.workloads = (0..tasks).map(named).collect();
    let mut world = world(&scenario);
    world.run_until(SPAN);
    world.counters.work_done.values().copied().collect()
}

/// Goal: two tasks on a CPU get half of it each.
#[test]
fn two_tasks_share_a_cpu() {
    // Half of 11,111,111, but for a slice of 3 ms at the end.
    for share in shares(machine(1, 1, 4), 2) {
        assert_near(share, 5_555_555, 10);
    }
}

/// Goal: three tasks on two CPUs get two thirds of a CPU each.
#[test]
fn three_tasks_share_two_cpus() {
    // Two thirds of 11,111,111.
    for share in shares(machine(1, 2, 4), 3) {
        assert_near(share, 7_407_407, 50);
    }
}

/// Returns the local lines per 1000 in the second half of four seconds, and the idle part of CPU
/// time per 1000.
fn locality(scheduler: SchedulerKind, tasks: u32, seed: u64) -> (u64, u64) {
    let mut scenario = scenario(plain(machine(2, 8, 16)), chase(tasks));
    scenario.scheduler = scheduler;
    scenario.workloads[0].home = InitialHome::Spread;
    if scheduler == SchedulerKind::HomeAware {
        // The home is the node of the memory: the first ones run on node 0, which binds nothing.
        let half = |node: u32| Workload {
            name: format!("on-{node}"),
            processes: tasks / 2,
            home: InitialHome::On(NodeId(node)),
            placement: MemoryPlacement::Bind(node.to_string().parse().unwrap()),
            ..chase(1)
        };
        scenario.workloads = vec![half(0), half(1)];
    }
    let mut world = World::new(&scenario, seed);
    world.populate();
    world.run_until(2000 * MS);
    let (local, remote) = (world.counters.local_lines, world.counters.remote_lines);
    let busy = world.busy_ns();
    world.run_until(4000 * MS);
    let local = world.counters.local_lines - local;
    let all = local + world.counters.remote_lines - remote;
    let time = 16 * 2000 * MS;
    (local * 1000 / all, (time - (world.busy_ns() - busy).min(time)) * 1000 / time)
}

/// Goal: with a scheduler that ignores memory, tasks spend half of the time on the node of their
/// memory, on two nodes.
#[test]
fn a_blind_scheduler_mixes() {
    let seeds = 1..=8;
    let count = seeds.clone().count() as u64;
    let mut sum = 0;
    for seed in seeds {
        let (local, idle) = locality(SchedulerKind::NumaUnaware, 32, seed);
        // A remote line takes twice the time of a local one.
        let time = local * 1000 / (local + 2 * (1000 - local));
        println!("blind: {local} of 1000 lines local, {time} of 1000 of the time, {idle} idle");
        assert!(idle <= 5, "{idle}");
        sum += time;
    }
    // One run is a mean over 32 tasks that change nodes a few times: 1 / sqrt(4 * 32) = 88 of 1000
    // is its standard deviation at most, and 31 that of the mean of eight runs.
    assert!((sum / count).abs_diff(500) < 3 * 31, "{}", sum / count);
}

/// Goal: a scheduler that knows homes has more local lines, and leaves no CPU idle for it.
#[test]
fn a_scheduler_with_homes_keeps_tasks_there() {
    let (local, idle) = locality(SchedulerKind::HomeAware, 32, 1);
    println!("home: {local} of 1000 local, {idle} of 1000 idle");
    assert!(local > 950, "{local}");
    assert!(idle <= 5, "{idle}");
    // Node 0 is home to all tasks, twice as many as it has CPUs: the other node works, too.
    let mut scenario = scenario(plain(machine(2, 8, 16)), chase(16));
    scenario.scheduler = SchedulerKind::HomeAware;
    scenario.workloads[0].home = InitialHome::On(NodeId(0));
    let mut world = world(&scenario);
    world.run_until(SPAN);
    let time = 16 * SPAN;
    assert!(world.busy_ns() > time / 1000 * 990, "{} of {time}", world.busy_ns());
}
