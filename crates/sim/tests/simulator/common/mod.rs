//! Machines and scenarios for tests.

#![allow(dead_code, reason = "each test uses a part of it")]

use nodeward_model::{CpuId, NodeId};
use nodeward_scenario::{
    AccessPattern, InitialHome, MachineSpec, MemoryPlacement, NodeSpec, Params, Scenario,
    SchedulerKind, SharedLines, Workload, WorkloadKind,
};

/// Creates a number of nodes with `cpus` CPUs and `gib` GiB each, at distance 20.
pub fn machine(nodes: u32, cpus: u32, gib: u64) -> MachineSpec {
    let node = |id: u32| NodeSpec {
        id: NodeId(id),
        cpus: (id * cpus..(id + 1) * cpus).map(CpuId).collect(),
        threads_per_core: 1,
        memory_bytes: gib << 30,
        latency_ns: None,
        bandwidth_bytes_per_s: None,
    };
    let distance = |from, to| if from == to { 10 } else { 20 };
    let row = |from| (0..nodes).map(|to| distance(from, to)).collect();
    MachineSpec {
        nodes: (0..nodes).map(node).collect(),
        distances: (0..nodes).map(row).collect(),
        links: Vec::new(),
        params: Params::default(),
    }
}

/// Single-threaded processes that stream through their memory.
pub fn triad(processes: u32, mib: u64) -> Workload {
    let access = AccessPattern { parallel_milli: 10_000, compute_ps: 1000, writes_milli: 333 };
    Workload {
        name: "triad".to_owned(),
        kind: WorkloadKind::Triad { access, shared: SharedLines::default(), passes: 0 },
        processes,
        threads: 1,
        memory_bytes: mib << 20,
        huge: false,
        folio_bytes: 0,
        placement: MemoryPlacement::FirstTouch,
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

/// A scenario of one workload, for a second.
pub fn scenario(machine: MachineSpec, workload: Workload) -> Scenario {
    Scenario {
        name: "test".to_owned(),
        about: String::new(),
        machine,
        workloads: vec![workload],
        scheduler: SchedulerKind::NumaUnaware,
        numa_balancing: false,
        actions: Vec::new(),
        faults: None,
        time_ns: 1_000_000_000,
        until_done: false,
        groups: Vec::new(),
        sample_ns: 10_000_000,
        report: Vec::new(),
    }
}

/// The same workload with its memory on these nodes.
pub fn bound(workload: Workload, nodes: &str) -> Workload {
    Workload { placement: MemoryPlacement::Bind(nodes.parse().unwrap()), ..workload }
}

/// Single-threaded processes of a given kind.
pub fn workload(kind: WorkloadKind, processes: u32, mib: u64) -> Workload {
    Workload { name: "work".to_owned(), kind, ..triad(processes, mib) }
}
