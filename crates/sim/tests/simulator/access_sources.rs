//! Sources of accesses: what they see, and what they do not.

use std::collections::{BTreeMap, BTreeSet};

use nodeward_machine::conformance::accesses::{ALL, AccessFixture};
use nodeward_machine::{AccessBatch, AccessSampling, AccessSourceKind, Machine};
use nodeward_model::{AccessKind, AccessSample, Accessor, NodeId};
use nodeward_scenario::{
    AccessPattern, MemoryPlacement, Scenario, SharedLines, Workload, WorkloadKind,
};
use nodeward_sim::SimMachine;

use crate::common::{machine, scenario, triad};

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

/// Two programs of one thread and 64 MiB each, on two nodes of two CPUs.
fn two_programs() -> Scenario {
    let away = MemoryPlacement::PopulatedFarthest;
    let programs = Workload { placement: away, populated: true, ..triad(2, 64) };
    let mut scenario = scenario(machine(2, 2, 1), programs);
    scenario.time_ns = 60 * S;
    scenario
}

/// What a source sees of all processes in a time.
fn observed(sim: &SimMachine, kind: AccessSourceKind, rate_hz: u32, ns: u64) -> AccessBatch {
    let pids = sim.processes().iter().map(|process| process.pid).collect();
    let mut source = sim.open_access_source(kind).unwrap();
    source.observe(&AccessSampling { pids, rate_hz }).unwrap();
    sim.run_until(sim.now_ns() + ns);
    source.take().unwrap()
}

/// Goal: all sources of simulated machines do what sources of real ones do.
#[test]
fn sources_conform() {
    use AccessSourceKind::{Faults, Perf, Registers, SoftDirty};
    for kind in [Perf, Registers, SoftDirty, Faults] {
        let mut scenario = two_programs();
        scenario.machine.params.counter_entries = 1 << 18;
        scenario.machine.params.numa_scan_max_ns = S; // so that faults go on
        scenario.numa_balancing = true;
        let sim = SimMachine::new(&scenario, 1);
        let [pid, other] = [0, 1].map(|at| sim.processes()[at].pid);
        let stage = AccessFixture {
            machine: &sim,
            kind,
            pid,
            other,
            work: &|| sim.sleep_ns(100 * MS),
            end_other: &|| assert!(sim.kill_at(other, sim.now_ns())),
        };
        for (name, body) in ALL {
            println!("{kind}: {name}");
            body(&stage);
        }
    }
}

/// Goal: where a source does not work, the machine says why, with what would help.
#[test]
fn what_does_not_work_is_told() {
    let sim = SimMachine::new(&two_programs(), 1);
    let obstacles: BTreeMap<_, _> =
        sim.access_sources().into_iter().map(|status| (status.kind, status.obstacle)).collect();
    assert_eq!(obstacles[&AccessSourceKind::Registers], None);
    let told = |kind| obstacles[&kind].clone().unwrap();
    assert!(told(AccessSourceKind::Perf).contains("machine.counter-entries"));
    assert!(told(AccessSourceKind::Faults).contains("numa-balancing"));
    let error = sim.open_access_source(AccessSourceKind::Damon).err().unwrap();
    assert!(error.to_string().contains("no source 'damon'"), "{error}");
}

/// Goal: each CPU is sampled at the rate: 1000 a second on two CPUs for 2 s, but for the time in
/// the kernel, 3 % of which are the interrupts of sampling; a third of the accesses write.
#[test]
fn registers_are_sampled_at_the_rate() {
    let sim = SimMachine::new(&two_programs(), 1);
    let batch = observed(&sim, AccessSourceKind::Registers, 1000, 2 * S);
    let count = batch.samples.len();
    assert!((3840..=4000).contains(&count), "{count}");
    assert_eq!((batch.lost, batch.cpu_ns), (0, count as u64 * 10_000));
    let writes = batch.samples.iter().filter(|it| it.kind == AccessKind::Write).count();
    // 333 of 1000, and five times the deviation of sqrt(4000 * 1/3 * 2/3) = 30.
    assert!(writes.abs_diff(count / 3) < 150, "{writes} of {count}");
    assert_eq!(observed(&sim, AccessSourceKind::Registers, 0, S), AccessBatch::default());
}

/// Goal: slow memory is seen more often than it is used. A thread on node 0 goes through pages of
/// both nodes in turn, a miss at a time: 90 ns for those of node 0, 180 ns for the others. Half of
/// the accesses are remote, and two thirds of the samples.
#[test]
fn registers_see_where_time_goes() {
    let access = AccessPattern { parallel_milli: 1000, compute_ps: 0, writes_milli: 0 };
    let both: nodeward_model::Nodemask = "0-1".parse().unwrap();
    let program = Workload {
        kind: WorkloadKind::Triad { access, shared: SharedLines::default(), passes: 0 },
        placement: MemoryPlacement::Interleave(both),
        nodes: Some([NodeId(0)].into_iter().collect()),
        populated: true,
        ..triad(1, 64)
    };
    let mut scenario = scenario(machine(2, 2, 1), program);
    scenario.machine.params.tlb_refill_ns = 0;
    let sim = SimMachine::new(&scenario, 1);
    let batch = observed(&sim, AccessSourceKind::Registers, 10_000, S);
    let pid = sim.processes()[0].pid;
    let is_remote = |sample: &&AccessSample| {
        let page = sim.inspect(|world| world.page_at(pid, sample.access.address)).unwrap();
        page.node == NodeId(1)
    };
    let remote = batch.samples.iter().filter(is_remote).count() * 1000 / batch.samples.len();
    // 667 of 1000, and five times the deviation of 1000 * sqrt(2/9 / 7000) = 5.6; an interrupt of
    // 30 us each leaves 7000 to 10,000 samples.
    assert!((638..=695).contains(&remote), "{remote} of 1000, {} samples", batch.samples.len());
    let local = sim.timeline().local_milli(0, S).unwrap();
    assert!(local.abs_diff(500) <= 1, "{local}");
}

/// Goal: a source that observes nobody changes nothing, and what one sees comes from the seed.
#[test]
fn sources_are_deterministic() {
    let hash = |opened: bool| {
        let sim = SimMachine::new(&two_programs(), 1);
        let source = opened.then(|| sim.open_access_source(AccessSourceKind::Registers).unwrap());
        sim.run_until(200 * MS);
        drop(source);
        sim.trace_hash()
    };
    assert_eq!(hash(false), hash(true));
    let seen = |seed| {
        let sim = SimMachine::new(&two_programs(), seed);
        observed(&sim, AccessSourceKind::Registers, 1000, 200 * MS)
    };
    assert_eq!(seen(1), seen(1));
    assert_ne!(seen(1), seen(2));
}

/// Goal: the kernel's hint faults show each page of both programs once in the first scan, touched
/// by a CPU of the other node.
#[test]
fn faults_show_each_page_once() {
    let scenario = Scenario { numa_balancing: true, ..two_programs() };
    let sim = SimMachine::new(&scenario, 1);
    let batch = observed(&sim, AccessSourceKind::Faults, 0, 3 * S);
    let pages: BTreeSet<_> =
        batch.samples.iter().map(|it| (it.pid, it.access.address / 4096)).collect();
    assert_eq!((batch.samples.len(), pages.len()), (2 * 16_384, 2 * 16_384));
    assert!(batch.samples.iter().all(|it| matches!(it.access.accessor, Accessor::Cpu(_))));
}

/// Goal: write faults show each page of both programs once a round, whoever writes it again. A
/// thread goes through its 64 MiB in some 30 ms and writes to a third of the pages, so in 0.9 s one
/// is left out with a probability of (2/3)^30. To clear 32,768 bits costs 100 ns each, to read a
/// fault 1 us.
#[test]
fn write_faults_show_each_page_once_a_round() {
    let sim = SimMachine::new(&two_programs(), 1);
    let batch = observed(&sim, AccessSourceKind::SoftDirty, 0, 900 * MS);
    let pages: BTreeSet<_> =
        batch.samples.iter().map(|it| (it.pid, it.access.address / 4096)).collect();
    assert_eq!((batch.samples.len(), pages.len()), (2 * 16_384, 2 * 16_384));
    assert!(batch.samples.iter().all(|it| it.kind == AccessKind::Write && it.tid.is_some()));
    assert_eq!(batch.cpu_ns, 32_768 * 100 + 32_768 * 1_000);
}

/// Goal: what is only read causes no write faults, and a process of more pages than can be cleared
/// within 20 ms is refused.
#[test]
fn write_faults_have_blind_spots() {
    let access = AccessPattern { parallel_milli: 4000, compute_ps: 2000, writes_milli: 0 };
    let kind = WorkloadKind::Triad { access, shared: SharedLines::default(), passes: 0 };
    let reader = Workload { kind, populated: true, ..triad(1, 64) };
    let sim = SimMachine::new(&scenario(machine(2, 2, 1), reader), 1);
    assert_eq!(observed(&sim, AccessSourceKind::SoftDirty, 0, S).samples, []);
    let large = Workload { populated: true, ..triad(1, 800) };
    let sim = SimMachine::new(&scenario(machine(2, 2, 2), large), 1);
    let pids = vec![sim.processes()[0].pid];
    let mut source = sim.open_access_source(AccessSourceKind::SoftDirty).unwrap();
    let refused = source.observe(&AccessSampling { pids, rate_hz: 0 }).unwrap_err();
    assert!(refused.to_string().contains("over 20 ms"), "{refused}");
}

/// Goal: pages of threads whose memory is scattered take turns in the address space, and threads
/// that are bound stay on their node: each of four threads is seen on every fourth page only.
#[test]
fn scattered_pages_take_turns() {
    let access = AccessPattern { parallel_milli: 4000, compute_ps: 2000, writes_milli: 0 };
    let program = Workload {
        kind: WorkloadKind::Phases { access, phase_bytes: 1 << 20, shared_milli: 0 },
        threads: 4,
        populated: true,
        bound: true,
        scattered: true,
        begins: None,
        ..triad(1, 64)
    };
    let sim = SimMachine::new(&scenario(machine(2, 2, 1), program), 1);
    let batch = observed(&sim, AccessSourceKind::Registers, 1000, S);
    let start =
        sim.open_process(sim.processes()[0].pid).unwrap().mappings().unwrap()[0].range.start;
    let tids: BTreeSet<_> = batch.samples.iter().filter_map(|sample| sample.tid).collect();
    assert_eq!(tids.len(), 4);
    for sample in &batch.samples {
        let thread = tids.iter().position(|&tid| Some(tid) == sample.tid).unwrap() as u64;
        assert_eq!((sample.access.address - start) / 4096 % 4, thread);
        let Accessor::Cpu(cpu) = sample.access.accessor else { panic!("{sample:?}") };
        assert_eq!(u64::from(cpu.0) / 2, thread / 2, "threads begin on CPUs in turn");
    }
}
