//! Chooses the CPUs of workers: distinct physical cores, near the destination, spread over its
//! caches.
//!
//! The bandwidth of one core, and of one group of cores with a common last-level cache, limits the
//! copy: four threads on four such groups copied 1.7 times as fast as four in one (Zen 3, v2 of the
//! 2025 copy-offload patches). Two threads of one core share these limits.

use std::collections::BTreeMap;

use nodeward_model::{CpuId, Cpumask, NodeId, Nodemask, Topology};

/// Limit on the workers that are used by default: page tables, LRU locks and the link are shared.
pub const WORKERS_MAX: usize = 16;

/// Lower limit on the pages in a unit of work. Each call drains the per-CPU LRU lists of the whole
/// machine under one mutex (20-200 us, `lru_cache_disable` in mm/swap.c), so it must move enough
/// pages to be worth it.
const UNIT_PAGES_MIN: u64 = 2048;
/// Upper limit on the pages in a unit: some 64 ms of work, the interval of Ctrl-C checks and
/// progress.
const UNIT_PAGES_MAX: u64 = 32_768;

/// The shortest interval of CPU times that counts: the kernel counts in ticks, and a single
/// misattributed tick must not decide.
const SAMPLE_TICKS_MIN: u64 = 12;

/// Returns the number of remaining pages that a worker takes next: half of its share. So units are
/// large at first and small at the end, and all workers end at about the same time (guided
/// self-scheduling, Polychronopoulos and Kuck 1987). A single worker takes all that is left, within
/// the limits.
pub fn unit_pages(left: u64, workers: u32) -> u64 {
    let share = left / if workers <= 1 { 1 } else { 2 * u64::from(workers) };
    share.clamp(UNIT_PAGES_MIN, UNIT_PAGES_MAX)
}

/// Returns one CPU of each usable core, in order of preference for a worker: the cores of the
/// destinations in turn, then those of ever more distant nodes.
pub fn worker_cpus(topology: &Topology, destinations: &Nodemask, usable: &Cpumask) -> Vec<CpuId> {
    let near = interleave(
        &destinations.iter().map(|node| cores(topology, node, usable)).collect::<Vec<_>>(),
    );
    let far = by_distance(topology, destinations)
        .into_iter()
        .flat_map(|node| cores(topology, node, usable));
    near.into_iter().chain(far).collect()
}

/// Returns one CPU of each usable core, in order of preference, for lanes that share the machine
/// with the program whose pages they move: idle cores, then idle threads of cores whose other
/// thread is busy, then busy CPUs. `busy` leaves out the load of the lanes themselves.
///
/// A lane on a busy CPU takes time from the program that it serves. If it is preempted during a
/// batch, a thread that touches the batch waits for a whole time slice. An idle core of another
/// node loses less: wherever the copy runs, it crosses the link between the nodes.
pub fn lane_cpus(
    topology: &Topology,
    destination: NodeId,
    usable: &Cpumask,
    busy: &Cpumask,
) -> Vec<CpuId> {
    let [mut alone, mut beside, mut among] = [(); 3].map(|()| Cpumask::new());
    for core in &topology.cores {
        let ours = core.cpus.and(usable);
        let idle = ours.without(busy);
        if idle.is_empty() {
            among.extend(ours.iter());
        } else if core.cpus.and(busy).is_empty() {
            alone.extend(idle.iter());
        } else {
            beside.extend(idle.iter());
        }
    }
    let destinations = Nodemask::from_iter([destination]);
    let tiers = [alone, beside, among];
    tiers.iter().flat_map(|tier| worker_cpus(topology, &destinations, tier)).collect()
}

/// Returns whether a CPU has load of its own, from its recent busy and idle time, in any unit of
/// which a dozen are significant; `None` if the interval is too short.
pub fn is_busy(busy: u64, idle: u64) -> Option<bool> {
    (busy + idle >= SAMPLE_TICKS_MIN).then_some(busy > idle)
}

/// Returns the nodes that are no destination, nearest to any destination first.
fn by_distance(topology: &Topology, destinations: &Nodemask) -> Vec<NodeId> {
    let nearest = |node: &NodeId| {
        destinations.iter().filter_map(|to| topology.distance(*node, to)).min().unwrap_or(u32::MAX)
    };
    let mut others: Vec<NodeId> = topology.node_ids().without(destinations).iter().collect();
    others.sort_by_key(|node| (nearest(node), *node));
    others
}

/// Returns one usable CPU of each core of a node, alternating between the last-level caches.
fn cores(topology: &Topology, node: NodeId, usable: &Cpumask) -> Vec<CpuId> {
    let mut by_cache: BTreeMap<Option<CpuId>, Vec<CpuId>> = BTreeMap::new();
    for cpu in topology.cores_of_node(node).iter().filter_map(|core| core.and(usable).first()) {
        let cache = topology.last_level_cache_of(cpu).and_then(|cache| cache.cpus.first());
        by_cache.entry(cache).or_default().push(cpu);
    }
    interleave(&by_cache.into_values().collect::<Vec<_>>())
}

/// Returns the first of each list, then the second of each, and so on.
fn interleave(lists: &[Vec<CpuId>]) -> Vec<CpuId> {
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    (0..longest).flat_map(|i| lists.iter().filter_map(move |list| list.get(i).copied())).collect()
}

#[cfg(test)]
mod tests {
    use nodeward_model::Synthetic;
    use proptest::prelude::*;

    use super::*;

    fn check(machine: &str, destinations: &str, usable: &str, expected: &[u32]) {
        let topology = machine.parse::<Synthetic>().unwrap().topology();
        let cpus = worker_cpus(&topology, &destinations.parse().unwrap(), &usable.parse().unwrap());
        let cpus: Vec<u32> = cpus.into_iter().map(|cpu| cpu.0).collect();
        assert_eq!(cpus, expected, "{machine} to {destinations} on {usable}");
    }

    #[test]
    fn units_are_large_at_first_and_small_in_the_end() {
        assert_eq!(unit_pages(131_072, 2), 32_768); // 512 MiB: a quarter
        assert_eq!(unit_pages(98_304, 2), 24_576); // then a quarter of what is left
        assert_eq!(unit_pages(1000, 2), UNIT_PAGES_MIN);
        assert_eq!(unit_pages(20_000, 1), 20_000);
        assert_eq!(unit_pages(u64::MAX, 8), UNIT_PAGES_MAX);
    }

    #[test]
    fn the_destination_comes_first_one_cpu_a_core() {
        check("2n 1c 1t 1GiB", "1", "0-1", &[1, 0]);
        check("2n 2c 2t 1GiB", "1", "0-7", &[4, 6, 0, 2]);
    }

    #[test]
    fn cpus_that_we_may_not_use_are_left_out() {
        check("2n 2c 2t 1GiB", "1", "1,5", &[5, 1]); // the second thread of the first core of each
        check("2n 1c 1t 1GiB", "1", "", &[]);
    }

    #[test]
    fn caches_take_turns() {
        // Four cores, two to a last-level cache: 0 and 1, 2 and 3.
        check("1n 4c 1t 1GiB L3:8MiB/2c", "0", "0-3", &[0, 2, 1, 3]);
    }

    #[test]
    fn busy_is_more_than_half_of_a_long_look() {
        assert_eq!(is_busy(7, 5), Some(true));
        assert_eq!(is_busy(6, 6), Some(false));
        assert_eq!(is_busy(11, 0), None);
    }

    #[test]
    fn a_node_without_cpus_is_served_by_its_neighbours() {
        check("2n 2c 1t 1GiB + 1n 1GiB", "2", "0-3", &[0, 1, 2, 3]);
    }

    fn check_lanes(machine: &str, usable: &str, busy: &str, expected: &[u32]) {
        let topology = machine.parse::<Synthetic>().unwrap().topology();
        let [usable, busy] = [usable, busy].map(|cpus| cpus.parse().unwrap());
        let lanes: Vec<u32> =
            lane_cpus(&topology, NodeId(1), &usable, &busy).into_iter().map(|cpu| cpu.0).collect();
        assert_eq!(lanes, expected, "{machine} to 1 on {usable} without {busy}");
    }

    /// Goal: lanes leave the program's CPUs alone as long as there are others.
    #[test]
    fn lanes_avoid_busy_cpus() {
        let machine = "2n 2c 2t 1GiB"; // node 0: cores 0-1 and 2-3; node 1: cores 4-5 and 6-7
        check_lanes(machine, "0-7", "", &[4, 6, 0, 2]);
        check_lanes(machine, "0-7", "6-7", &[4, 0, 2, 6]);
        check_lanes(machine, "0-7", "4,6", &[0, 2, 5, 7]);
        check_lanes(machine, "0-7", "4,6-7", &[0, 2, 5, 6]);
        check_lanes(machine, "0-7", "0-7", &[4, 6, 0, 2]);
    }

    /// Goal: an unusable CPU counts as a neighbour, and is never chosen.
    #[test]
    fn lanes_stay_on_usable_cpus() {
        let machine = "2n 2c 2t 1GiB";
        check_lanes(machine, "4,6", "5", &[6, 4]);
        check_lanes(machine, "4,6", "4", &[6, 4]);
        check_lanes(machine, "", "4", &[]);
    }

    proptest! {
        /// Goal: each usable core has one lane, on a busy CPU only if it has no idle one; no busy
        /// CPU comes before an idle one.
        #[test]
        fn every_core_gets_its_quietest_cpu(usable in 0..1_u32 << 16, busy in 0..1_u32 << 16) {
            let topology = "2n 4c 2t 1GiB L3:8MiB/2c".parse::<Synthetic>().unwrap().topology();
            let mask = |bits: u32| -> Cpumask {
                (0..16).filter(|cpu| bits >> cpu & 1 == 1).map(CpuId).collect()
            };
            let (usable, busy) = (mask(usable), mask(busy));
            let lanes = lane_cpus(&topology, NodeId(1), &usable, &busy);
            prop_assert!(lanes.iter().all(|&cpu| usable.contains(cpu)));
            prop_assert!(lanes.is_sorted_by_key(|&cpu| busy.contains(cpu)));
            for core in &topology.cores {
                let ours: Vec<CpuId> =
                    lanes.iter().copied().filter(|&cpu| core.cpus.contains(cpu)).collect();
                let places = core.cpus.and(&usable);
                prop_assert_eq!(ours.len(), usize::from(!places.is_empty()));
                let is_busy = ours.iter().any(|&cpu| busy.contains(cpu));
                prop_assert!(!is_busy || places.is_subset(&busy));
            }
        }
    }
}
