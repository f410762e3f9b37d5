//! Pages are neither lost nor created, whatever runs.

use crate::common::{machine, scenario, workload};
use nodeward_model::{NodeId, Nodemask};
use nodeward_scenario::{
    AccessPattern, MemoryPlacement, Scenario, SharedLines, Workload, WorkloadKind,
};
use nodeward_sim::World;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn some_workload() -> impl Strategy<Value = Workload> {
    let access = AccessPattern { parallel_milli: 4000, compute_ps: 500, writes_milli: 100 };
    let kind = prop_oneof![
        Just(WorkloadKind::PageFault),
        Just(WorkloadKind::Hog),
        Just(WorkloadKind::Triad { access, shared: SharedLines::default(), passes: 0 }),
        Just(WorkloadKind::Compile { compute_ns: 3 * MS, access, lives: 0, varies_milli: 0 }),
        Just(WorkloadKind::Stream {
            message_bytes: 100_000,
            buffer_bytes: 20_000,
            window: 1000,
            compute_ns: 20_000,
            on_one_cpu: false,
        }),
    ];
    let both: Nodemask = [NodeId(0), NodeId(1)].into_iter().collect();
    let second: Nodemask = [NodeId(1)].into_iter().collect();
    let placement = prop_oneof![
        Just(MemoryPlacement::FirstTouch),
        Just(MemoryPlacement::Bind(second)),
        Just(MemoryPlacement::Interleave(both)),
    ];
    (kind, placement, 1_u32..4, 1_u32..4, 1_u64..80, any::<[bool; 2]>(), 0_u64..20).prop_map(
        |(kind, placement, processes, threads, mib, [huge, own_groups], start_ms)| Workload {
            placement,
            threads,
            huge,
            own_memcgs: own_groups,
            populated: false,
            cpuset: None,
            duty_cycle: None,
            bound: false,
            scattered: false,
            one_segment: false,
            begins: None,
            start_ns: start_ms * MS,
            ..workload(kind, processes, mib)
        },
    )
}

fn some_scenario() -> impl Strategy<Value = Scenario> {
    let workloads = prop::collection::vec(some_workload(), 1..4);
    (workloads, 0_u64..3, 1_u64..100, 1_u64..2000).prop_map(|(workloads, tuning, batch, high)| {
        let mut machine = machine(2, 2, 1);
        // Small nodes, so that memory runs out now and then.
        machine.nodes.iter_mut().for_each(|node| node.memory_bytes = 96 << 20);
        machine.params.pcp_tuning = tuning;
        machine.params.pcp_batch = batch;
        machine.params.pcp_high_max = high;
        let mut scenario = scenario(machine, workloads[0].clone());
        scenario.workloads = workloads;
        scenario
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Goal: at any time the free, listed and used pages of a node add up to all its pages.
    #[test]
    fn pages_are_conserved(scenario in some_scenario(), seed in any::<u64>()) {
        let mut world = World::new(&scenario, seed);
        for ms in 1..=60 {
            world.run_until(ms * MS);
            prop_assert_eq!(world.check_pages(), Ok(()), "after {} ms", ms);
        }
    }
}
