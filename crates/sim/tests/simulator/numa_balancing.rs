//! The kernel's NUMA balancing, and the building blocks of scenarios for balancers.

use std::collections::BTreeMap;

use crate::common::{bound, machine, scenario, triad, workload};
use nodeward_machine::{CallEnd, Machine, MovePagesCall};
use nodeward_model::{AffinityOutcome, CpuId, Cpumask, NodeId, OtherBalancer, ProcessFilter};
use nodeward_scenario::{
    AccessPattern, Action, ActionKind, DutyCycle, MemoryPlacement, Scenario, Workload, WorkloadKind,
};
use nodeward_sim::SimMachine;

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

/// Single-threaded programs of 64 MiB on two nodes of four CPUs, with their memory on the wrong
/// node.
fn away(processes: u32) -> Scenario {
    let away = Workload {
        placement: MemoryPlacement::PopulatedFarthest,
        populated: true,
        ..triad(processes, 64)
    };
    scenario(machine(2, 4, 1), away)
}

fn balanced(scenario: Scenario) -> SimMachine {
    SimMachine::new(&Scenario { numa_balancing: true, time_ns: 60 * S, ..scenario }, 1)
}

/// Goal: misplaced memory comes home in the first scan, each page once, and stays there; without
/// the kernel's NUMA balancing it stays where it was.
#[test]
fn misplaced_memory_comes_home() {
    let plain = SimMachine::new(&away(4), 1);
    assert_eq!(plain.other_balancers().unwrap(), []);
    plain.run_until(10 * S);
    assert_eq!(plain.timeline().local_milli(0, 10 * S), Some(0));
    let sim = balanced(away(4));
    assert_eq!(sim.other_balancers().unwrap(), [OtherBalancer::Kernel { mode: 1 }]);
    sim.run_until(10 * S);
    let timeline = sim.timeline();
    let last = timeline.points().last().unwrap();
    assert_eq!(last.migrated_pages, 4 * (64 << 20) / 4096); // each page once
    assert_eq!((last.fault_pages, last.called_pages), (last.migrated_pages, 0));
    assert_eq!(timeline.local_milli(9 * S, 10 * S), Some(1000));
    assert_eq!(timeline.pages_per_minute(5 * S, 10 * S), 0);
    // Scans begin after a second of run time, and take the first stretch of memory at once.
    let from_ns = timeline.local_since_ns(900, 100 * MS).unwrap();
    assert!((S..3 * S).contains(&from_ns), "{from_ns}");
    assert!(sim.work_of("triad") > plain.work_of("triad"));
}

/// Goal: a scan that ends with the memory leaves its end to the next one, which marks nothing. A
/// program has as much memory as a scan marks (256 MiB) or half as much: so every second scan marks
/// all of the larger one, and every scan all of the smaller.
#[test]
fn a_scan_that_marks_enough_does_not_begin_anew() {
    for (mib, scans_each) in [(256, 2), (128, 1)] {
        let sim = balanced(scenario(machine(2, 4, 1), triad(1, mib)));
        sim.run_until(10 * S);
        let (scans, faults) =
            sim.inspect(|world| (world.counters.numa_scans, world.counters.lazy_faults));
        let marking = scans.div_ceil(scans_each);
        let pages = (mib << 20) / 4096;
        assert!(faults > (marking - 2) * pages && faults <= marking * pages, "{scans}: {faults}");
    }
}

/// Goal: a thread that was moved away from its memory returns to it; the memory stays.
#[test]
fn threads_follow_their_memory() {
    let sim = balanced(away(1));
    sim.run_until(30 * S);
    let process =
        sim.watch(&ProcessFilter::default()).unwrap().snapshot().unwrap().processes[0].clone();
    assert!(process.threads[0].cpu < CpuId(4));
    let other: Cpumask = "4-7".parse().unwrap();
    let held = sim.open_process(process.pid).unwrap();
    assert_eq!(held.nudge(process.pid.number(), &other).unwrap(), AffinityOutcome::Done);
    let before = sim.with_world(|world| world.counters.clone());
    sim.run_until(59 * S);
    let process =
        sim.watch(&ProcessFilter::default()).unwrap().snapshot().unwrap().processes[0].clone();
    assert!(process.threads[0].cpu < CpuId(4), "{process:?}");
    let after = sim.with_world(|world| world.counters.clone());
    assert_eq!((before.numa_moves, after.numa_moves), (0, 1));
    assert_eq!(after.migrated_pages, before.migrated_pages);
}

/// Goal: where all tasks are on their preferred node, none is protected when the scheduler evens
/// out nodes by mistake, as in Linux 6.12; a task that was moved away returns.
#[test]
fn nobody_is_spared_where_all_are_at_home() {
    let mut crowded = away(16); // two for each CPU
    crowded.machine.params.stray_milli = 330;
    let sim = balanced(crowded);
    sim.run_until(20 * S);
    let before = sim.with_world(|world| world.counters.clone());
    sim.run_until(40 * S);
    let after = sim.with_world(|world| world.counters.clone());
    // 4 CPUs x 330 / 1000 are 1.3 per check: hundreds in 20 s, if there are tasks to take.
    assert!(after.task_node_moves - before.task_node_moves > 20, "{after:?}");
    assert!(after.numa_moves > before.numa_moves, "{after:?}");
    let local = sim.timeline().local_milli(20 * S, 40 * S).unwrap();
    assert!((700..1000).contains(&local), "{local}");
}

/// Goal: pages that threads of both nodes touch move only if two faults in a row come from one node
/// and its threads touch more: after the first scans fewer than a third of the faults.
#[test]
fn shared_pages_are_not_thrown_to_and_fro() {
    let access = AccessPattern { parallel_milli: 4000, compute_ps: 2000, writes_milli: 500 };
    let kind = WorkloadKind::Random { access, hot_touches_milli: 0, hot_bytes_milli: 0 };
    let shared = Workload {
        threads: 8,
        placement: MemoryPlacement::PopulatedOn([NodeId(0), NodeId(1)].into_iter().collect()),
        populated: true,
        ..workload(kind, 1, 256)
    };
    let sim = balanced(scenario(machine(2, 4, 1), shared));
    let counted = |until_ns| {
        sim.run_until(until_ns);
        sim.with_world(|world| (world.counters.lazy_faults, world.counters.lazy_pages))
    };
    let (faults, pages) = counted(20 * S);
    let (all_faults, all_pages) = counted(40 * S);
    let (faults, pages) = (all_faults - faults, all_pages - pages);
    assert!(faults > 10_000 && pages * 3 < faults, "{pages} of {faults}");
}

/// Goal: memory with a policy of the program is not scanned.
#[test]
fn policies_are_respected() {
    let bound =
        Workload { populated: true, nodes: Some("0".parse().unwrap()), ..bound(triad(2, 64), "1") };
    let sim = balanced(scenario(machine(2, 4, 1), bound));
    sim.run_until(5 * S);
    let counters = sim.with_world(|world| world.counters.clone());
    assert_eq!((counters.lazy_faults, counters.migrated_pages), (0, 0));
    assert!(counters.numa_scans > 0);
}

/// Goal: a seed gives one run.
#[test]
fn balancing_is_deterministic() {
    let run = || {
        let sim = balanced(away(12));
        sim.run_until(5 * S);
        sim.trace_hash()
    };
    assert_eq!(run(), run());
}

/// Goal: memory with `left` placement lies on the named nodes, without a policy that keeps it
/// there.
#[test]
fn memory_lies_where_it_was_left() {
    let pages = |placement: MemoryPlacement| {
        let sim = SimMachine::new(
            &scenario(machine(2, 1, 1), Workload { placement, populated: true, ..triad(1, 64) }),
            1,
        );
        let process = &sim.processes()[0];
        assert!(!sim.open_process(process.pid).unwrap().memory_policies().unwrap().has_task_policy);
        process.pages.clone()
    };
    let all = (64 << 20) / 4096;
    let both = [NodeId(0), NodeId(1)];
    assert_eq!(pages(MemoryPlacement::PopulatedFarthest), [(NodeId(1), all)].into());
    assert_eq!(
        pages(MemoryPlacement::PopulatedOn(both.into_iter().collect())),
        both.map(|id| (id, all / 2)).into()
    );
}

/// Goal: a process in a cpuset has CPUs and memory of its nodes only, and calls cannot change that.
#[test]
fn cpusets_confine() {
    let confined = Workload { cpuset: Some("1".parse().unwrap()), ..triad(2, 64) };
    let sim = SimMachine::new(&scenario(machine(2, 4, 1), confined), 1);
    sim.run_until_populated(S);
    for process in sim.watch(&ProcessFilter::default()).unwrap().snapshot().unwrap().processes {
        assert_eq!(process.memory_nodes, "1".parse().unwrap());
        assert_eq!(*process.threads[0].cpus, "4-7".parse().unwrap());
        let held = sim.open_process(process.pid).unwrap();
        let mut batch = MovePagesCall::new(true);
        batch.push(held.mappings().unwrap()[0].range.start, NodeId(0));
        assert_eq!(held.move_pages(&batch).unwrap().end, CallEnd::NotAllowed);
        let tid = process.pid.number();
        assert_eq!(held.nudge(tid, &"0-3".parse().unwrap()).unwrap(), AffinityOutcome::NotAllowed);
    }
    for process in sim.processes() {
        assert_eq!(process.pages.keys().collect::<Vec<_>>(), [&NodeId(1)]);
    }
}

/// Goal: a frozen process is reported as frozen and does not run; it continues afterwards, and
/// other processes never stop.
#[test]
fn the_frozen_stand_still() {
    let mut scenario = scenario(machine(2, 2, 1), triad(1, 16));
    scenario.workloads.push(Workload { name: "other".to_owned(), ..triad(1, 16) });
    let kind = ActionKind::Freeze { for_ns: 300 * MS };
    scenario.actions.push(Action { at_ns: 200 * MS, workload: "triad".to_owned(), kind });
    let sim = SimMachine::new(&scenario, 1);
    let mut watch = sim.watch(&ProcessFilter::default()).unwrap();
    let mut look = |at_ms: u64| -> BTreeMap<String, (bool, u64)> {
        sim.run_until(at_ms * MS);
        let told = watch.snapshot().unwrap().processes.into_iter();
        told.map(|process| (process.name.to_string(), (process.frozen, process.cpu_time_ns)))
            .collect()
    };
    let [before, first, second, after] = [199, 250, 450, 900].map(&mut look);
    let ran = |from: &BTreeMap<_, (bool, u64)>, to: &BTreeMap<_, (bool, u64)>, name: &str| {
        to[name].1 - from[name].1
    };
    assert!(!before["triad"].0 && first["triad"].0 && second["triad"].0 && !after["triad"].0);
    assert_eq!(ran(&first, &second, "triad"), 0);
    assert!(ran(&first, &second, "other") > 190 * MS);
    assert!(ran(&second, &after, "triad") > 390 * MS); // from 500 to 900 ms
}

/// Goal: a program that works for as long as it rests uses half a CPU.
#[test]
fn shifts_share_time() {
    let shifts = Some(DutyCycle { busy_ns: 20 * MS, idle_ns: 20 * MS });
    let sim = SimMachine::new(
        &scenario(machine(2, 2, 1), Workload { duty_cycle: shifts, ..triad(1, 1) }),
        1,
    );
    sim.run_until(800 * MS);
    let ran_ns =
        sim.watch(&ProcessFilter::default()).unwrap().snapshot().unwrap().processes[0].cpu_time_ns;
    // 400 ms, and the last operation that was begun.
    assert!((390 * MS..=420 * MS).contains(&ran_ns), "{ran_ns}");
}

/// Goal: the scenarios for balancers run, and the memory of each lies where it is meant to.
#[test]
fn scenarios_for_balancers_begin_as_they_are_meant() {
    let local = |name: &str, sets: &[(&str, &str)]| {
        let sim = SimMachine::new(&Scenario::find_with(name, sets).unwrap(), 1);
        sim.run_until(300 * MS);
        assert!(sim.timeline().points().last().unwrap().migrated_pages == 0, "{name}");
        sim.timeline().local_milli(0, 300 * MS).unwrap()
    };
    assert!(local("balance-2012", &[]) < 200);
    let split = local("balance-2012", &[("workload.stream.place", "left:0-1")]);
    assert!((450..550).contains(&split), "{split}");
    assert_eq!(local("balance-wide", &[]), 499); // a half, rounded down in each turn
    // Half of the threads are where all memory is, and go faster.
    assert!((500..700).contains(&local("balance-shared", &[])));
    assert!(local("balance-sides", &[]) > 600);
    assert!((800..900).contains(&local("balance-crowded", &[])));
    assert!(local("balance-short", &[]) < 900);
}
