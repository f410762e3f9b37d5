//! Nodes that share work, against theory: outstanding misses, queues, homes, affinity.

use crate::common::{bound, machine, scenario, triad};
use nodeward_model::{NodeId, Nodemask, Pid};
use nodeward_scenario::{
    AccessPattern, MachineSpec, Scenario, SchedulerKind, SharedLines, Workload, WorkloadKind,
};
use nodeward_sim::{CpuTimeKind, SimMachine, World};

const MS: u64 = 1_000_000;

/// Streams that only wait for memory: ten outstanding misses each, nothing written.
fn streams(processes: u32, cpus: u32, memory: &str) -> Workload {
    let access = AccessPattern { parallel_milli: 10_000, compute_ps: 0, writes_milli: 0 };
    let nodes: Nodemask = [NodeId(cpus)].into_iter().collect();
    let name = format!("on-{cpus}-{memory}");
    let kind = WorkloadKind::Triad { access, shared: SharedLines::default(), passes: 0 };
    let workload = Workload { name, kind, nodes: Some(nodes), populated: true, ..triad(1, 64) };
    bound(Workload { processes, ..workload }, memory)
}

/// Two nodes of eight CPUs; 100 ns to the own memory and 200 ns to the other, without bandwidth
/// limits. Translations cost nothing.
fn wide() -> MachineSpec {
    let mut machine = machine(2, 8, 16);
    machine.params.latency_ns = 100;
    machine.params.bandwidth_bytes_per_s = 1_000_000_000_000;
    machine.params.link_bandwidth_bytes_per_s = 1_000_000_000_000;
    machine.params.tlb_refill_ns = 0;
    machine
}

/// Returns the lines per second of each workload, in the steady state.
fn rates(machine: MachineSpec, workloads: Vec<Workload>) -> Vec<u64> {
    let names: Vec<_> = workloads.iter().map(|workload| workload.name.clone()).collect();
    let mut scenario = scenario(machine, triad(1, 1));
    scenario.workloads = workloads;
    let mut world = World::new(&scenario, 1);
    world.run_until(300 * MS);
    let before = world.counters.work_done.clone();
    world.run_until(1300 * MS);
    names.iter().map(|name| world.counters.work_done[name] - before[name]).collect()
}

fn assert_near(value: u64, expected: u64, milli: u64) {
    let off = value.abs_diff(expected) * 1000 / expected;
    assert!(off <= milli, "{value} is {off} of 1000 off {expected}");
}

/// Goal: Little's law. A socket with a limit of outstanding misses completes that number per
/// latency of one, however many threads wait; remote misses take longer, so fewer complete.
#[test]
fn misses_under_way_bound_the_rate() {
    let mut machine = wide();
    machine.params.complex_misses = 20;
    // 20 in 100 ns, and 20 in 200 ns.
    assert_near(rates(machine.clone(), vec![streams(8, 0, "0")])[0], 200_000_000, 40);
    assert_near(rates(machine.clone(), vec![streams(8, 0, "1")])[0], 100_000_000, 40);
    // Four of each want 40 slots and wait W for them: 40 / (100 + W) + 40 / (200 + W) are
    // completed, and of those slots 40 * 100 / (100 + W) + 40 * 200 / (200 + W) are 20, so W is 451
    // ns: 72.6 and 61.4 millions in a second.
    let mixed = rates(machine, vec![streams(4, 0, "0"), streams(4, 0, "1")]);
    assert_near(mixed[0], 72_600_000, 50);
    assert_near(mixed[1], 61_400_000, 50);
}

/// Goal: without such a limit threads do not wait for slots.
#[test]
fn without_a_bound_threads_have_all_they_wait_for() {
    // 80 in 100 ns.
    assert_near(rates(wide(), vec![streams(8, 0, "0")])[0], 800_000_000, 20);
}

/// Goal: remote and local accesses wait in the same queue, and equally long.
#[test]
fn a_queue_is_as_long_for_all() {
    let mut machine = wide();
    // 100 million lines in a second.
    machine.nodes[0].bandwidth_bytes_per_s = Some(6_400_000_000);
    let rates = rates(machine, vec![streams(8, 0, "0"), streams(8, 1, "0")]);
    assert_near(rates.iter().sum(), 100_000_000, 40);
    // 80 / (100 + W) + 80 / (200 + W) lines in a nanosecond are 0.1, so W is 1451 ns; near threads
    // are (200 + W) / (100 + W) = 1.064 times as fast.
    assert_near(rates[0] * 1000 / rates[1], 1064, 15);
}

/// Programs on two nodes of eight CPUs under the scheduler of 2012, without strays.
fn at_home(processes: u32) -> Scenario {
    let mut machine = wide();
    machine.params.stray_milli = 0;
    let mut scenario = scenario(machine, triad(processes, 16));
    scenario.scheduler = SchedulerKind::SchedNuma2012;
    scenario.time_ns = 8000 * MS;
    scenario
}

/// Returns the local lines per 1000 in the last of some seconds.
fn local(world: &mut World, seconds: u64) -> u64 {
    world.run_until((seconds - 1) * 1000 * MS);
    let before = [world.counters.local_lines, world.counters.remote_lines];
    world.run_until(seconds * 1000 * MS);
    let local = world.counters.local_lines - before[0];
    local * 1000 / (local + world.counters.remote_lines - before[1]).max(1)
}

/// Goal: homes are assigned by load, which leaves one node with two tasks more than the other,
/// because a tenth more is no reason to go elsewhere. The balancer then gives the surplus process
/// and its pages another home. After that no task is away.
#[test]
fn homes_are_evened_out() {
    // 32 tasks are shared 17 to 15: the last one stays, as 16 are less than 1.1 times 15.
    let mut world = World::new(&at_home(32), 1);
    assert!(local(&mut world, 1) < 1000, "one task is away");
    assert_eq!(local(&mut world, 8), 1000);
    // One process of 16 MiB.
    assert_eq!(world.counters.lazy_pages, 4096);
}

/// Goal: with as many home tasks on each node as run there, the balancer changes nothing.
#[test]
fn even_homes_stay() {
    // 4 tasks: 1 is not less than 1.1 times 0, so they go to the nodes in turn.
    let mut world = World::new(&at_home(4), 1);
    assert_eq!(local(&mut world, 8), 1000);
    assert_eq!(world.counters.lazy_pages, 0);
}

/// Goal: nodes are compared at the configured interval.
#[test]
fn nodes_are_compared_in_their_own_time() {
    let moves = |every_ns: u64| {
        let mut machine = wide();
        machine.params.stray_milli = 500;
        machine.params.balance_nodes_ns = every_ns;
        let mut world = World::new(&scenario(machine, triad(32, 16)), 1);
        world.run_until(4000 * MS);
        world.counters.task_node_moves
    };
    // Each comparison takes back the four tasks that the other node took over, and four more by
    // mistake: eight CPUs, half a task for each. Two nodes compare eight times in four seconds:
    // 128, without the very first comparison, which takes nothing back. Run queues may be empty now
    // and then.
    let seldom = moves(500 * MS);
    assert!((100..=124).contains(&seldom), "{seldom}");
    assert!(moves(50 * MS) > 5 * seldom);
}

/// Goal: a process that is kept on the node of its memory has no remote lines from then on.
#[test]
fn who_is_kept_at_home_is_there() {
    let mut workload = bound(triad(1, 16), "1");
    workload.name = "away".to_owned();
    workload.populated = true;
    let machine = SimMachine::new(&scenario(wide(), workload), 1);
    machine.run_until(100 * MS);
    let pid = machine.processes()[0].pid;
    let keep = |node: u32| {
        machine.with_world(|world| world.bind_to_nodes(pid, &[NodeId(node)].into_iter().collect()))
    };
    assert!(keep(1));
    machine.run_until(110 * MS);
    let remote = || machine.with_world(|world| world.counters.remote_lines);
    let before = remote();
    machine.run_until(200 * MS);
    assert_eq!(remote(), before);
    assert!(!keep(7), "there is no such node");
    let nobody = Pid::new(7).expect("a pid");
    assert!(!machine.with_world(|world| world.bind_to_nodes(nobody, &Nodemask::default())));
}

/// Goal: work takes its time from the task that shares the CPU.
#[test]
fn work_takes_time_from_others() {
    let machine = SimMachine::new(&scenario(machine(1, 1, 4), triad(1, 16)), 1);
    machine.run_until(100 * MS);
    let spent = |on: CpuTimeKind| machine.with_world(|world| world.counters.spent_ns[on as usize]);
    let before = spent(CpuTimeKind::Kernel);
    machine.spend_cpu_time(CpuTimeKind::Kernel, 20 * MS);
    // And a switch or two.
    assert!((20 * MS..20 * MS + 100_000).contains(&(spent(CpuTimeKind::Kernel) - before)));
}

/// Goal: a run of fixed work. Two processes of a thread go three times through their memory of 64
/// MiB, 2^20 lines, near and far: 3 * 2^20 * 100 ns / 10 misses under way are 31.5 ms, and twice
/// that far away. The first ends then, the second twice as late, and the run with it.
#[test]
fn work_that_ends_ends_the_run() {
    let passes = |node: &str| {
        let mut workload = streams(1, 0, node);
        let WorkloadKind::Triad { passes, .. } = &mut workload.kind else { unreachable!() };
        *passes = 3;
        workload
    };
    let mut scenario = scenario(wide(), triad(1, 1));
    scenario.workloads = vec![passes("0"), passes("1")];
    scenario.until_done = true;
    let machine = SimMachine::new(&scenario, 1);
    machine.run_until_done(1000 * MS);
    let ends = machine.work_ends();
    let near_ns = 3 * (64 << 20) / 64 * 100 / 10;
    assert_near(ends.first_ns.unwrap(), near_ns, 40);
    assert_near(ends.last_ns.unwrap(), 2 * near_ns, 40);
    let done: Vec<u64> = machine.report().workloads.iter().map(|it| it.done).collect();
    assert_eq!(done, [3 << 20; 2]);
    assert!(machine.report().virtual_ns < 2 * near_ns * 11 / 10, "it went on for nothing");
}

/// Goal: processes begin on the nodes that a scenario names, in turn, and may leave them: with
/// memory that comes from where it is touched, half of the processes have theirs on either node.
#[test]
fn processes_begin_where_they_are_told() {
    let on = |begins: &str| {
        let mut workload = triad(4, 8);
        (workload.begins, workload.populated) = (Some(begins.parse().unwrap()), true);
        let machine = SimMachine::new(&scenario(wide(), workload), 1);
        machine.run_until(1);
        let pages = machine.processes().into_iter().map(|process| process.pages);
        pages.fold([0, 0], |sum: [u64; 2], pages| {
            [0, 1].map(|node| sum[node] + pages.get(&NodeId(node as u32)).copied().unwrap_or(0))
        })
    };
    let pages = 4 * (8 << 20) / 4096;
    assert_eq!(on("1"), [0, pages]);
    assert_eq!(on("0-1"), [pages / 2; 2]);
}
