//! Cost of a virtual second by CPUs, pages and tasks: at most linear in each.
//!
//! `cargo bench -p nodeward-sim --bench scale`. The first row is the machine that has to keep up
//! with real time. Rows of a table have about the same number of events, and each is the median of
//! some runs. `times` is the time per event relative to the first row of the table: 1.0 is linear.
//! In the tables by `CPUs` and `tasks` the memory of a task is on one or two nodes. The table by
//! `nodes` shows the cost of turns that touch many nodes: the same CPUs, with memory interleaved
//! over all nodes.

use std::time::Instant;

use nodeward_model::{CpuId, NodeId, Nodemask};
use nodeward_scenario::{
    AccessPattern, InitialHome, MachineSpec, MemoryPlacement, NodeSpec, Params, Scenario,
    SchedulerKind, SharedLines, Workload, WorkloadKind,
};
use nodeward_sim::World;

/// Size of a run.
#[derive(Clone, Copy)]
pub struct MachineSize {
    /// Nodes of 256 GiB each.
    pub nodes: u32,
    /// CPUs of each.
    pub cpus: u32,
    /// Whether memory is interleaved over all nodes, or else placed near the thread that touches it
    /// first.
    pub spread: bool,
    /// Tasks: half of them stream, half use random lines.
    pub tasks: u32,
    /// Memory of each task in MiB; random tasks have twice that.
    pub mib: u64,
    /// Simulated time, in virtual milliseconds.
    pub ms: u64,
}

/// Cost of a run.
pub struct SimulationCost {
    /// Milliseconds to set up, memory included.
    pub begin_ms: u128,
    /// Milliseconds per virtual second.
    pub second_ms: u128,
    /// Events per virtual second.
    pub events: u64,
    /// Tenths of a nanosecond per event.
    pub event_tenths: u128,
    /// Steps per 1000 events.
    pub steps_milli: u64,
}

fn machine(nodes: u32, cpus: u32) -> MachineSpec {
    let node = |id: u32| NodeSpec {
        id: NodeId(id),
        cpus: (id * cpus..(id + 1) * cpus).map(CpuId).collect(),
        threads_per_core: 2,
        memory_bytes: 256 << 30,
        latency_ns: None,
        bandwidth_bytes_per_s: None,
    };
    let distance = |from: u32, to: u32| match from.abs_diff(to) {
        0 => 10,
        1..=3 => 16,
        _ => 28,
    };
    let row = |from| (0..nodes).map(|to| distance(from, to)).collect();
    MachineSpec {
        nodes: (0..nodes).map(node).collect(),
        distances: (0..nodes).map(row).collect(),
        links: Vec::new(),
        params: Params::default(),
    }
}

fn workload(kind: WorkloadKind, name: &str, size: MachineSize, mib: u64) -> Workload {
    let all: Nodemask = (0..size.nodes).map(NodeId).collect();
    Workload {
        name: name.to_owned(),
        kind,
        processes: size.tasks / 2,
        threads: 1,
        memory_bytes: mib << 20,
        huge: true,
        folio_bytes: 0,
        placement: if size.spread {
            MemoryPlacement::Interleave(all)
        } else {
            MemoryPlacement::FirstTouch
        },
        nodes: None,
        home: InitialHome::None,
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
    }
}

/// Half of the tasks stream, the others use random lines.
pub fn scenario(size: MachineSize) -> Scenario {
    let streams = AccessPattern { parallel_milli: 10_000, compute_ps: 1000, writes_milli: 333 };
    let jumps = AccessPattern { parallel_milli: 2000, compute_ps: 2000, writes_milli: 0 };
    let random = WorkloadKind::Random { access: jumps, hot_touches_milli: 0, hot_bytes_milli: 0 };
    Scenario {
        name: "scale".to_owned(),
        about: String::new(),
        machine: machine(size.nodes, size.cpus),
        workloads: vec![
            workload(
                WorkloadKind::Triad { access: streams, shared: SharedLines::default(), passes: 0 },
                "triad",
                size,
                size.mib,
            ),
            workload(random, "random", size, 2 * size.mib),
        ],
        scheduler: SchedulerKind::NumaUnaware,
        numa_balancing: false,
        actions: Vec::new(),
        faults: None,
        time_ns: size.ms * 1_000_000,
        until_done: false,
        groups: Vec::new(),
        sample_ns: 10_000_000,
        report: Vec::new(),
    }
}

/// Runs a scenario and returns its cost.
pub fn cost(size: MachineSize) -> SimulationCost {
    let begin = Instant::now();
    let mut world = World::new(&scenario(size), 1);
    world.populate();
    let begin_ms = begin.elapsed().as_millis();
    let run = Instant::now();
    world.run_until(size.ms * 1_000_000);
    let ran = run.elapsed();
    let events = world.counters.events;
    SimulationCost {
        begin_ms,
        second_ms: ran.as_millis() * 1000 / u128::from(size.ms),
        events: events * 1000 / size.ms,
        event_tenths: ran.as_nanos() * 10 / u128::from(events.max(1)),
        steps_milli: world.steps() * 1000 / events.max(1),
    }
}

/// Returns for each row the run with the median time. Rows take turns, so that other load of the
/// host affects all alike.
fn medians(runs: u32, sizes: &[MachineSize]) -> Vec<SimulationCost> {
    let mut costs: Vec<Vec<SimulationCost>> = sizes.iter().map(|_| Vec::new()).collect();
    for _ in 0..runs {
        costs.iter_mut().zip(sizes).for_each(|(costs, &size)| costs.push(cost(size)));
    }
    let median = |mut costs: Vec<SimulationCost>| {
        costs.sort_by_key(|cost| cost.event_tenths);
        costs.swap_remove(costs.len() / 2)
    };
    costs.into_iter().map(median).collect()
}

fn table(what: &str, runs: u32, rows: impl Iterator<Item = (u64, MachineSize)>) {
    let mut first = None;
    let (counts, sizes): (Vec<_>, Vec<_>) = rows.unzip();
    for (count, cost) in counts.into_iter().zip(medians(runs, &sizes)) {
        let SimulationCost { begin_ms, second_ms, events, event_tenths, steps_milli } = cost;
        let times = event_tenths * 10 / *first.get_or_insert(event_tenths.max(1));
        let bar = "#".repeat((event_tenths / 250).min(50) as usize);
        println!(
            "{what:>6} {count:>5} {begin_ms:>6} ms {second_ms:>6} ms {events:>8} {:>7} ns {:>6}.{} \
             {:>6}.{:02} {bar}",
            event_tenths / 10,
            times / 10,
            times % 10,
            steps_milli / 1000,
            steps_milli % 1000 / 10,
        );
    }
}

/// Prints all tables, or those of small sizes.
pub fn tables(smoke: bool) {
    let (runs, rows, ms) = if smoke { (1, 2, 5) } else { (7, 5, 500) };
    let base = MachineSize { nodes: 4, cpus: 64, spread: false, tasks: 512, mib: 32, ms: 4 * ms };
    println!(
        "{:>12} {:>9} {:>9} {:>8} {:>10} {:>8} {:>9}",
        "", "to begin", "a second", "events", "an event", "times", "steps"
    );
    if !smoke {
        let floor = MachineSize { nodes: 16, tasks: 2048, mib: 1024, ms: 1000, ..base };
        table("floor", runs, [(1024, floor)].into_iter());
    }
    let size = |nodes: u32| MachineSize {
        nodes,
        tasks: nodes * 128,
        ms: 16 * ms / u64::from(nodes),
        ..base
    };
    let by_two = || [1, 2, 4, 8, 16].into_iter().take(rows);
    table("CPUs", runs, by_two().map(|nodes| (u64::from(nodes) * 64, size(nodes))));
    let size = |nodes: u32| MachineSize { nodes, cpus: 256 / nodes, spread: true, ..base };
    table("nodes", runs, by_two().map(|nodes| (u64::from(nodes), size(nodes))));
    let mib = [32, 128, 512, 2048].into_iter().take(rows);
    table("MiB", runs, mib.map(|mib| (mib, MachineSize { mib, ..base })));
    let tasks = [512, 1024, 2048, 4096].into_iter().take(rows);
    table("tasks", runs, tasks.map(|tasks| (u64::from(tasks), MachineSize { tasks, ..base })));
}

#[allow(dead_code, reason = "the smoke test has no use for it")]
fn main() {
    tables(std::env::args().any(|arg| arg == "--smoke"));
}
