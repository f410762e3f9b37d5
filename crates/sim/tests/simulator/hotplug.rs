//! CPUs and memory go offline and come back while programs run and pages move.

use crate::common::{bound, machine, scenario, triad};
use nodeward_machine::Machine;
use nodeward_model::{Cpumask, NodeId};
use nodeward_scenario::{Action, ActionKind, FaultInjection, Scenario, Workload, WorkloadKind};
use nodeward_sim::{SimMachine, World};

const MS: u64 = 1_000_000;
/// Pages of 64 MiB.
const PAGES: u64 = 64 * 256;

fn cpus(list: &str) -> Cpumask {
    list.parse().unwrap()
}

fn of_machine(at_ms: u64, kind: ActionKind) -> Action {
    Action { at_ns: at_ms * MS, workload: String::new(), kind }
}

fn off(at_ms: u64, list: &str) -> Action {
    of_machine(at_ms, ActionKind::CpusOff { cpus: cpus(list) })
}

fn on(at_ms: u64, list: &str) -> Action {
    of_machine(at_ms, ActionKind::CpusOn { cpus: cpus(list) })
}

/// Eight single-threaded processes on two nodes of four CPUs.
fn busy(actions: Vec<Action>) -> Scenario {
    let mut scenario = scenario(machine(2, 4, 1), triad(8, 8));
    scenario.actions = actions;
    scenario.faults = Some(FaultInjection::default());
    scenario
}

/// Returns the CPU time of all CPUs of a node between two times, in milliseconds.
fn busy_ms(world: &mut World, node: usize, from_ms: u64, to_ms: u64) -> u64 {
    let mut at = |ms: u64| {
        world.run_until(ms * MS);
        world.report().nodes[node].busy_ns
    };
    let from = at(from_ms);
    (at(to_ms) - from) / MS
}

/// Goal: without CPUs 2 to 7 the eight threads share two CPUs, which are always busy, and no other
/// CPU works. When the CPUs are back, all eight are busy: 8 * 100 ms in 100 ms, less the time to
/// spread.
#[test]
fn threads_leave_cpus_and_come_back() {
    let mut world = World::new(&busy(vec![off(100, "2-7"), on(300, "2-7")]), 1);
    assert!(busy_ms(&mut world, 0, 50, 100) >= 190, "4 CPUs in 50 ms");
    assert_eq!(busy_ms(&mut world, 1, 120, 300), 0);
    assert_eq!(world.hotplugs[0].done, 6);
    assert!(world.hotplugs[0].ended_ns.unwrap() < 120 * MS);
    let both: u64 = busy_ms(&mut world, 0, 350, 450);
    assert!(both >= 390, "{both}");
    assert!(busy_ms(&mut world, 1, 450, 550) >= 390);
    let report = world.report();
    assert_eq!(report.actions[0].what, "CPUs 2-7: off: 6 done");
    assert_eq!(report.actions[1].what, "CPUs 2-7: on: 6 done");
}

/// Goal: the last CPU stays, whatever is requested, and threads that may run on no other CPU run
/// there.
#[test]
fn the_last_cpu_stays() {
    let mut scenario = busy(vec![off(10, "0-6"), off(100, "0-7"), off(150, "7")]);
    scenario.workloads[0].nodes = Some([NodeId(0)].into_iter().collect());
    let machine = SimMachine::new(&scenario, 1);
    machine.run_until(200 * MS);
    assert_eq!(machine.usable_cpus().unwrap(), cpus("7"));
    let topology = machine.topology().unwrap();
    assert_eq!((topology.cpus, topology.cores.len()), (cpus("7"), 1));
    let counts = machine.inspect(|world| world.hotplugs.clone());
    let counts: Vec<_> = counts.iter().map(|record| (record.done, record.stayed)).collect();
    assert_eq!(counts, [(7, 0), (0, 8), (0, 1)]);
    let busy_ns = |machine: &SimMachine| machine.inspect(World::busy_ns);
    let before = busy_ns(&machine);
    machine.run_until(300 * MS);
    let worked = busy_ns(&machine) - before;
    // A turn of 4 ms at most is accounted for at its end.
    assert!((96 * MS..=104 * MS).contains(&worked), "{worked}");
    assert_eq!(machine.inspect(World::check_pages), Ok(()));
}

/// Goal: pages in the lists of a CPU return to the zones when it goes offline.
#[test]
fn lists_are_drained() {
    let work = Workload { kind: WorkloadKind::PageFault, ..triad(8, 8) };
    let mut scenario = busy(vec![off(100, "1-7")]);
    scenario.workloads = vec![work];
    let mut world = World::new(&scenario, 1);
    world.run_until(100 * MS - 1);
    let listed = |world: &World| -> Vec<u64> {
        world.census().nodes.iter().map(|node| node.in_lists).collect()
    };
    let before = listed(&world);
    assert!(before[1] > 0, "{before:?}");
    world.run_until(130 * MS);
    assert!(world.hotplugs[0].ended_ns.is_some());
    assert!(listed(&world)[0] < before[0] && listed(&world)[1] < before[1], "{before:?}");
    assert_eq!(world.check_pages(), Ok(()));
}

/// Goal: a move whose copiers' CPUs go offline ends with all of the pages, none of them stale.
#[test]
fn moves_survive_their_cpus() {
    let mut scenario = busy(vec![off(51, "4-7"), on(70, "4-7"), off(75, "0-3")]);
    scenario.machine.params.copiers = 4;
    scenario.workloads = vec![Workload { populated: true, ..bound(triad(2, 64), "0") }];
    let (from, to) = (NodeId(0), NodeId(1));
    let kind = ActionKind::Migrate { from, to, times: 5 };
    scenario.actions.insert(0, Action { at_ns: 50 * MS, workload: "triad".to_owned(), kind });
    let mut world = World::new(&scenario, 1);
    for ms in 1..=600 {
        world.run_until(ms * MS);
        assert_eq!(world.check_pages(), Ok(()));
    }
    assert_eq!(world.census().stale, []);
    assert_eq!(world.moves.len(), 5);
    assert!(world.moves.iter().all(|record| record.account.moved == 2 * PAGES));
}

fn memory_off(at_ms: u64, node: u32) -> Action {
    of_machine(at_ms, ActionKind::MemoryOff { node: NodeId(node) })
}

/// Two processes of 64 MiB on node 1 of two, whose memory goes offline after 50 ms.
fn emptied() -> Scenario {
    let mut scenario = busy(vec![memory_off(50, 1)]);
    scenario.workloads = vec![Workload { populated: true, ..bound(triad(2, 64), "1") }];
    scenario
}

/// Goal: all pages leave the node, which then has none and allocates none. When it comes back, all
/// its memory is there again, free. 262144 pages are 1 GiB.
#[test]
fn memory_goes_and_comes_back() {
    let mut scenario = emptied();
    scenario.actions.push(of_machine(500, ActionKind::MemoryOn { node: NodeId(1) }));
    let machine = SimMachine::new(&scenario, 1);
    machine.run_until(400 * MS);
    let census = machine.census();
    assert_eq!((census.nodes[1].capacity, census.nodes[1].in_use, census.nodes[1].free), (0, 0, 0));
    assert_eq!((census.nodes[0].in_use, census.stale_folios), (2 * PAGES, 0));
    assert_eq!(machine.headroom().unwrap()[&NodeId(1)].free_pages, 0);
    let told = |machine: &SimMachine| machine.topology().unwrap().nodes[&NodeId(1)].memory_bytes;
    assert_eq!(told(&machine), Some(0));
    machine.run_until(500 * MS);
    assert_eq!(told(&machine), Some(1 << 30));
    let census = machine.census();
    assert_eq!((census.nodes[1].capacity, census.nodes[1].free), (262_144, 262_144));
    let report = machine.inspect(World::report);
    assert_eq!(report.actions[0].what, "memory of node 1: off: 262144 pages");
    assert_eq!(report.actions[1].what, "memory of node 1: on: 262144 pages");
    assert_eq!(machine.inspect(World::check_pages), Ok(()));
}

/// Goal: a node whose memory is switched off, on and off again while it is emptied goes offline
/// once, and comes back whole.
#[test]
fn memory_goes_once() {
    let mut scenario = emptied();
    let on = |at_ms| of_machine(at_ms, ActionKind::MemoryOn { node: NodeId(1) });
    scenario.actions.extend([on(51), memory_off(52, 1), on(400)]);
    let mut world = World::new(&scenario, 1);
    world.run_until(399 * MS);
    assert_eq!((world.census().nodes[1].capacity, world.check_pages()), (0, Ok(())));
    world.run_until(450 * MS);
    let node = world.census().nodes[1].clone();
    assert_eq!((node.capacity, node.free, world.check_pages()), (262_144, 262_144, Ok(())));
}

/// Goal: where the other node has no room for all, the node stays on with the pages that did not
/// fit, and allocates memory again.
#[test]
fn memory_without_room_elsewhere_stays() {
    let mut scenario = emptied();
    scenario.machine.nodes[0].memory_bytes = 96 << 20;
    let machine = SimMachine::new(&scenario, 1);
    machine.run_until(400 * MS);
    let census = machine.census();
    let [first, second] = [0, 1].map(|node: usize| census.nodes[node].clone());
    assert!(first.in_use <= first.capacity && first.in_use > first.capacity * 9 / 10);
    assert_eq!((second.capacity, second.in_use), (262_144, 2 * PAGES - first.in_use));
    let record = machine.inspect(|world| world.hotplugs[0].clone());
    assert_eq!((record.done, record.stayed), (0, second.in_use));
    assert!(machine.headroom().unwrap()[&NodeId(1)].free_pages > 0);
    let what = machine.inspect(World::report).actions[0].what.clone();
    assert!(what.starts_with("memory of node 1: off: stays on, as "), "{what}");
}

/// Goal: pages that are pinned for good keep the node online; those pinned for a while only delay
/// it.
#[test]
fn held_pages_keep_memory() {
    let held = |pinned_milli, until_ns| {
        let mut scenario = emptied();
        scenario.workloads[0].memory_bytes = 8 << 20;
        scenario.faults =
            Some(FaultInjection { pinned_milli, until_ns, ..FaultInjection::default() });
        let mut world = World::new(&scenario, 1);
        world.run_until(900 * MS);
        assert_eq!(world.check_pages(), Ok(()));
        world.hotplugs[0].clone()
    };
    let for_good = held(1000, None);
    assert_eq!((for_good.done, for_good.stayed), (0, 2 * PAGES / 8));
    let for_a_while = held(100, None);
    assert_eq!((for_a_while.done, for_a_while.stayed), (262_144, 0));
    let until = held(1000, Some(55 * MS));
    assert_eq!((until.done, until.stayed), (262_144, 0));
}

/// Goal: a process that faults in memory while its node goes offline has all of it on the other
/// node.
#[test]
fn nothing_is_allocated_where_memory_goes() {
    let mut scenario = emptied();
    scenario.workloads = vec![triad(8, 64)];
    scenario.actions[0].at_ns = 5 * MS;
    let mut world = World::new(&scenario, 1);
    world.run_until(400 * MS);
    let census = world.census();
    assert_eq!((census.nodes[0].in_use, census.nodes[1].in_use), (8 * PAGES, 0));
    assert_eq!(census.nodes[1].capacity, 0);
    assert_eq!(world.check_pages(), Ok(()));
}

/// Goal: with all of it at once, repeatedly, no page is lost and time advances.
#[test]
fn everything_at_once() {
    let mut scenario = emptied();
    let (from, to) = (NodeId(0), NodeId(1));
    let kind = ActionKind::Migrate { from, to, times: 50 };
    scenario.actions = vec![Action { at_ns: 10 * MS, workload: "triad".to_owned(), kind }];
    for round in 0..10 {
        let at = 20 + round * 40;
        scenario.actions.extend([
            memory_off(at, (round % 2) as u32),
            off(at + 3, "0-5"),
            on(at + 13, "2-3"),
            off(at + 15, "6-7"),
            of_machine(at + 20, ActionKind::MemoryOn { node: NodeId((round % 2) as u32) }),
            on(at + 25, "0-7"),
        ]);
    }
    scenario.faults = Some(FaultInjection {
        allocation_milli: 20,
        pinned_milli: 20,
        late_ipi_milli: 50,
        ipi_delay_ns: MS,
        ..FaultInjection::default()
    });
    assert_eq!(scenario.check(), Ok(()));
    let mut world = World::new(&scenario, 1);
    for ms in 1..=500 {
        world.run_until(ms * MS);
        assert_eq!(world.check_pages(), Ok(()), "after {ms} ms");
    }
    let census = world.census();
    assert_eq!(census.stale, []);
    let in_use: u64 = census.nodes.iter().map(|node| node.in_use).sum();
    assert_eq!(in_use, 2 * PAGES);
    assert!(world.hotplugs.iter().all(|record| record.ended_ns.is_some()));
}
