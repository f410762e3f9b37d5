//! Tests of lists and zones, without programs.

use nodeward_model::{CpuId, NodeId};
use nodeward_scenario::{MachineSpec, NodeSpec, Params, Scenario, SchedulerKind};
use proptest::prelude::*;

use crate::world::World;

/// Creates a world of 1000 pages on each of two nodes, with two CPUs and no programs.
fn world(tuning: u64) -> World {
    let node = |id: u32| NodeSpec {
        id: NodeId(id),
        cpus: [CpuId(id)].into_iter().collect(),
        threads_per_core: 1,
        memory_bytes: 1000 * 4096,
        latency_ns: None,
        bandwidth_bytes_per_s: None,
    };
    let machine = MachineSpec {
        nodes: vec![node(0), node(1)],
        distances: vec![vec![10, 20], vec![20, 10]],
        links: Vec::new(),
        params: Params { pcp_tuning: tuning, ..Params::default() },
    };
    let scenario = Scenario {
        name: String::new(),
        about: String::new(),
        machine,
        workloads: Vec::new(),
        scheduler: SchedulerKind::NumaUnaware,
        numa_balancing: false,
        actions: Vec::new(),
        faults: None,
        time_ns: 1,
        until_done: false,
        groups: Vec::new(),
        sample_ns: 1,
        report: Vec::new(),
    };
    World::new(&scenario, 1)
}

proptest! {
    /// Goal: exactly the allocated pages are missing, and freed pages are available again.
    #[test]
    fn what_is_taken_comes_back(
        tuning in 0_u64..3,
        steps in prop::collection::vec((0..2_usize, 0..2_usize, 1..400_u64, 0..4), 1..30),
    ) {
        let mut world = world(tuning);
        let mut held = [0_u64; 2];
        for (cpu, node, pages, what) in steps {
            match what {
                0 => held[node] += world.mm().allocate_pages(cpu, node, pages).pages,
                1 => held[node] += world.mm().allocate_folios(cpu, node, 64, pages / 64).pages * 64,
                2 => {
                    let pages = pages.min(held[node]);
                    world.mm().return_pages(cpu, node, pages);
                    held[node] -= pages;
                }
                _ => {
                    let blocks = (pages / 64).min(held[node] / 64);
                    world.mm().return_folios(cpu, node, 64, blocks);
                    held[node] -= blocks * 64;
                }
            }
            for (node, held) in held.iter().enumerate() {
                prop_assert_eq!(world.memory.free(node) + held, 1000);
            }
        }
    }
}

/// Goal: pages that a CPU does not use return to the zone. A list keeps the rest of a batch of 63;
/// the list of another node is emptied after three periods without use.
#[test]
fn lists_of_other_nodes_expire() {
    for tuning in 0..3 {
        let mut world = world(tuning);
        world.mm().allocate_pages(0, 0, 1);
        world.mm().allocate_pages(0, 1, 1);
        assert_eq!([0, 1].map(|node| world.memory.pages_in_lists(node)), [62, 62]);
        // Each CPU has its turn once a second: two turns have passed for certain, and three at
        // most.
        world.run_until(2_100_000_000);
        assert_eq!(world.memory.pages_in_lists(1), 62);
        world.run_until(4_100_000_000);
        assert_eq!([0, 1].map(|node| world.memory.pages_in_lists(node)), [62, 0]);
    }
}

/// Goal: when a zone is nearly empty, lists return all pages but four batches.
#[test]
fn lists_shrink_when_memory_is_short() {
    for tuning in 0..3 {
        let mut world = world(tuning);
        world.machine.params.list_ps = 0;
        let all = world.mm().allocate_pages(0, 0, 1000).pages;
        assert_eq!(all, 1000);
        world.memory.zones[0].high_watermark = 1000;
        world.memory.zones[0].limits.high_default = 800;
        world.memory.zones[0].limits.high_max = 800;
        world.mm().return_pages(0, 0, 900);
        let listed = world.memory.pages_in_lists(0);
        // Four batches of 63, and less than one more on its way.
        assert!(listed <= 5 * 63, "{listed} of 900 stay in the list");
        assert_eq!(world.memory.free(0), 900);
    }
}
