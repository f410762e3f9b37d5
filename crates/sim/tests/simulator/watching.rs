//! The simulated machine as a balancer sees it, which moves threads.

use std::collections::BTreeMap;

use crate::common::{bound, machine, scenario, triad};
use nodeward_machine::Machine;
use nodeward_model::{
    AffinityOutcome, CpuId, Cpumask, MachineSnapshot, NodeId, ProcessFilter, ProcessSnapshot,
    ThreadSnapshot,
};
use nodeward_scenario::{MemoryPlacement, Workload};
use nodeward_sim::SimMachine;

const MS: u64 = 1_000_000;

/// Two nodes of four CPUs, and processes of one thread and 4 MiB.
fn sim(processes: u32) -> SimMachine {
    let sim = SimMachine::new(&scenario(machine(2, 4, 1), triad(processes, 4)), 1);
    sim.run_until_populated(100 * MS);
    sim
}

fn snapshot(sim: &SimMachine) -> MachineSnapshot {
    sim.watch(&ProcessFilter::default()).unwrap().snapshot().unwrap()
}

fn cpus(list: &str) -> Cpumask {
    list.parse().unwrap()
}

/// The only thread of a process.
fn thread(process: &ProcessSnapshot) -> &ThreadSnapshot {
    let [thread] = &process.threads[..] else { panic!("{process:?}") };
    thread
}

/// Goal: run time is that of the CPUs, memory that of the pages, and room is the free memory of
/// nodes.
#[test]
fn a_look_tells_time_and_memory() {
    let sim = sim(3);
    let (before, began_ns) = (snapshot(&sim), sim.now_ns());
    sim.run_until(began_ns + 100 * MS);
    let after = snapshot(&sim);
    for (old, new) in before.processes.iter().zip(&after.processes) {
        // Three on eight CPUs never wait; a turn that has just begun is charged for the time before
        // it.
        let ran_ns = new.cpu_time_ns - old.cpu_time_ns;
        assert!((98 * MS..=101 * MS).contains(&ran_ns), "{ran_ns}");
        assert_eq!(new.non_file_bytes, 4 << 20);
        assert_eq!(thread(new).tid, new.pid.number());
        assert_eq!(*thread(new).cpus, cpus("0-7"));
    }
    let used: u64 = after.nodes.values().map(|node| node.pages - node.headroom.free_pages).sum();
    assert!(used >= 3 * 1024, "{used}"); // and what lists of CPUs have
    let names = ProcessFilter { names: vec!["other".into()], ..ProcessFilter::default() };
    assert_eq!(sim.watch(&names).unwrap().snapshot().unwrap().processes, []);
    let group = ProcessFilter { cgroups: vec!["/other".into()], ..ProcessFilter::default() };
    assert!(sim.watch(&group).is_err());
}

/// Goal: tasks that share a CPU wait as long as they do not run: sixteen on eight CPUs half of the
/// time, and three never.
#[test]
fn a_look_tells_who_waits_for_a_cpu() {
    for (processes, waited_ms) in [(3, 0..=1), (16, 450..=550)] {
        let sim = sim(processes);
        let (before, began_ns) = (snapshot(&sim), sim.now_ns());
        sim.run_until(began_ns + 1000 * MS);
        let after = snapshot(&sim);
        for (old, new) in before.processes.iter().zip(&after.processes) {
            let waited_ns = thread(new).waited_ns - thread(old).waited_ns;
            assert!(waited_ms.contains(&(waited_ns / MS)), "{processes}: {waited_ns}");
        }
    }
}

/// Goal: samples cost CPU time: 8 us a process, 3 us a thread of those that ran; and so do moves.
#[test]
fn looks_are_paid_for() {
    let sim = sim(3);
    let mut watch = sim.watch(&ProcessFilter::default()).unwrap();
    watch.snapshot().unwrap();
    assert_eq!(sim.own_cpu_time_ns(), 3 * 8_000 + 3 * 3_000);
    sim.sleep_ns(MS);
    watch.snapshot().unwrap();
    assert_eq!(sim.own_cpu_time_ns(), 2 * (3 * 8_000 + 3 * 3_000));
}

/// Goal: a nudge moves a thread to the other node at once, and does not change its affinity.
#[test]
fn a_nudge_brings_threads_home() {
    let sim = sim(3);
    for process in snapshot(&sim).processes {
        let held = sim.open_process(process.pid).unwrap();
        assert_eq!(held.nudge(process.pid.number(), &cpus("4-7")).unwrap(), AffinityOutcome::Done);
    }
    let after = snapshot(&sim);
    for process in &after.processes {
        assert!(thread(process).cpu >= CpuId(4), "{process:?}");
        assert_eq!(*thread(process).cpus, cpus("0-7"));
    }
    let held = sim.open_process(after.processes[0].pid).unwrap();
    let tid = after.processes[0].pid.number();
    assert_eq!(held.nudge(tid, &cpus("99")).unwrap(), AffinityOutcome::NotAllowed);
    assert_eq!(held.nudge(1, &cpus("0")).unwrap(), AffinityOutcome::Gone);
}

/// Goal: a sleeping thread is reported as asleep, and wakes up where it was.
#[test]
fn a_nudge_does_not_reach_sleepers() {
    let mut scenario = scenario(machine(2, 4, 1), triad(1, 4));
    scenario.workloads[0].start_ns = 500 * MS;
    let sim = SimMachine::new(&scenario, 1);
    let process = &snapshot(&sim).processes[0];
    let held = sim.open_process(process.pid).unwrap();
    assert_eq!(held.nudge(process.pid.number(), &cpus("4-7")).unwrap(), AffinityOutcome::Asleep);
    assert_eq!(held.nudge(process.pid.number(), &cpus("0-3")).unwrap(), AffinityOutcome::Done);
    sim.run_until(600 * MS);
    assert!(thread(&snapshot(&sim).processes[0]).cpu < CpuId(4));
}

/// Goal: a nudge keeps no thread where it waits while a CPU is idle: of six threads sent to four
/// CPUs two are moved away again. Pinned threads wait for each other.
#[test]
fn a_nudge_holds_nobody() {
    let on_node_1 = |sim: &SimMachine| {
        sim.run_until(sim.now_ns() + 50 * MS);
        let of = |process: &ProcessSnapshot| u32::from(thread(process).cpu >= CpuId(4));
        snapshot(sim).processes.iter().map(of).sum::<u32>()
    };
    let nudged = sim(6);
    for process in snapshot(&nudged).processes {
        nudged
            .open_process(process.pid)
            .unwrap()
            .nudge(process.pid.number(), &cpus("4-7"))
            .unwrap();
    }
    assert_eq!(on_node_1(&nudged), 4);
    let pinned = sim(6);
    for process in snapshot(&pinned).processes {
        let held = pinned.open_process(process.pid).unwrap();
        assert_eq!(held.pin(process.pid.number(), &cpus("4-7,99")).unwrap(), AffinityOutcome::Done);
    }
    assert_eq!(on_node_1(&pinned), 6);
}

/// Goal: a memory policy of a program is reported.
#[test]
fn policies_are_told() {
    let told = |workload: Workload| {
        let sim = SimMachine::new(&scenario(machine(2, 4, 1), workload), 1);
        let pid = sim.processes()[0].pid;
        sim.open_process(pid).unwrap().memory_policies().unwrap().has_task_policy
    };
    let turns = MemoryPlacement::Interleave([NodeId(0), NodeId(1)].into_iter().collect());
    assert!(!told(triad(1, 4)));
    assert!(told(bound(triad(1, 4), "1")));
    assert!(told(Workload { placement: turns, ..triad(1, 4) }));
}

/// Goal: the same samples and nudges give the same run.
#[test]
fn looking_on_is_deterministic() {
    let run = || {
        let sim = sim(6);
        let mut watch = sim.watch(&ProcessFilter::default()).unwrap();
        let mut ran = BTreeMap::new();
        for round in 0..10 {
            for process in watch.snapshot().unwrap().processes {
                let node = [cpus("0-3"), cpus("4-7")][round % 2].clone();
                let held = sim.open_process(process.pid).unwrap();
                held.nudge(process.pid.number(), &node).unwrap();
                ran.insert(process.pid, process.cpu_time_ns);
            }
            sim.sleep_ns(10 * MS);
        }
        (ran, sim.trace_hash())
    };
    assert_eq!(run(), run());
}
