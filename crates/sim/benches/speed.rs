//! Page allocations simulated per second of wall time.
//!
//! `cargo bench -p nodeward-sim --bench speed` runs `page_fault1` of will-it-scale with 56
//! processes of 128 MiB on a node of two, each with 56 cores of 2 threads and 256 GiB, with each
//! tuner of the page lists. An allocated page is also zeroed, added to its group's lists, and
//! freed. The last line is JSON for SPEC: the least of the three. Without `--bench` (as `cargo
//! test` runs it) a hundredth of a second is simulated, only to check that it works.

use std::time::Instant;

use nodeward_model::{CpuId, NodeId};
use nodeward_policy::pcp::TunerKind;
use nodeward_scenario::{
    InitialHome, MachineSpec, MemoryPlacement, NodeSpec, Params, Scenario, SchedulerKind, Workload,
    WorkloadKind,
};
use nodeward_sim::World;

const CORES: u32 = 56;
const THREADS: u32 = 2;
const SECOND_NS: u64 = 1_000_000_000;

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let virtual_ns = if full { 3 * SECOND_NS } else { SECOND_NS / 100 };
    let mut least = u64::MAX;
    for tuning in 0..TunerKind::ALL.len() {
        let mut world = World::new(&scenario(tuning), 1);
        let begin = Instant::now();
        world.run_until(virtual_ns);
        let wall_us = begin.elapsed().as_micros().max(1);
        let pages = world.counters.faulted_pages;
        assert!(pages > 0);
        assert_eq!(world.check_pages(), Ok(()));
        let per_s = (u128::from(pages) * 1_000_000 / wall_us) as u64;
        least = least.min(per_s);
        let cpu_ns: u64 = world.counters.spent_ns.iter().sum();
        println!(
            "{}: {pages} pages in {} virtual ms and {} wall ms, {} events, {} zone visits, \
             {} % of the CPU time spent on waiting for the zone, hash {:016x}: {} M pages/s",
            TunerKind::ALL[tuning].name(),
            virtual_ns / 1_000_000,
            wall_us / 1000,
            world.counters.events,
            world.counters.zone_visits,
            world.counters.zone_waited_ns * 100 / cpu_ns.max(1),
            world.trace_hash(),
            tenths(per_s / 100_000)
        );
    }
    println!("{{\"measured\": {}, \"virtual_ms\": {}}}", least, virtual_ns / 1_000_000);
}

fn tenths(value: u64) -> String {
    format!("{}.{}", value / 10, value % 10)
}

fn scenario(tuning: usize) -> Scenario {
    let cpus = CORES * THREADS;
    let node = |id: u32| NodeSpec {
        id: NodeId(id),
        cpus: (id * cpus..(id + 1) * cpus).map(CpuId).collect(),
        threads_per_core: THREADS,
        memory_bytes: 256 << 30,
        latency_ns: None,
        bandwidth_bytes_per_s: None,
    };
    let params = Params { pcp_tuning: tuning as u64, ..Params::default() };
    let machine = MachineSpec {
        nodes: vec![node(0), node(1)],
        distances: vec![vec![10, 21], vec![21, 10]],
        links: Vec::new(),
        params,
    };
    let workload = Workload {
        name: "page-fault".to_owned(),
        kind: WorkloadKind::PageFault,
        processes: CORES,
        threads: 1,
        memory_bytes: 128 << 20,
        huge: false,
        folio_bytes: 0,
        placement: MemoryPlacement::FirstTouch,
        nodes: Some([NodeId(0)].into_iter().collect()),
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
    };
    Scenario {
        name: "page-fault".to_owned(),
        about: String::new(),
        machine,
        workloads: vec![workload],
        scheduler: SchedulerKind::NumaUnaware,
        numa_balancing: false,
        actions: Vec::new(),
        faults: None,
        time_ns: SECOND_NS,
        until_done: false,
        groups: Vec::new(),
        sample_ns: SECOND_NS / 100,
        report: Vec::new(),
    }
}
