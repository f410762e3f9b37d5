//! Advice for a program that is about to start and will be bound: the fewest nodes that have idle
//! CPUs and free memory for it, nearest to each other.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use nodeward_model::{NodeId, Nodemask, Topology};

/// Sets of nodes of one size that are compared, at most: all pairs of 400 nodes, or all halves of
/// 18.
const SETS_MAX: u128 = 100_000;
/// The distance between nodes whose distance is not known; the kernel's largest is 255.
const UNKNOWN_DISTANCE: u32 = 256;

/// The free CPUs and memory of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeOffer {
    /// CPUs that may be used.
    pub cpus: u32,
    /// CPUs without work, in millionths of a CPU.
    pub idle_ppm: u64,
    /// Memory that can be had, in bytes.
    pub free_bytes: u64,
}

/// The needs of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramNeed {
    /// The number of CPUs.
    pub cpus: u32,
    /// Memory in bytes.
    pub bytes: u64,
}

/// Returns the nodes for a program. If no nodes have so many idle CPUs, busy ones count; if they
/// have not the memory, or not the CPUs, all nodes are returned.
pub fn nodes_for(
    need: ProgramNeed,
    offers: &BTreeMap<NodeId, NodeOffer>,
    topology: &Topology,
) -> Nodemask {
    let all: Vec<NodeId> = offers.keys().copied().collect();
    let search = |counts_busy| Search { need, offers, topology, counts_busy };
    let found = [false, true].into_iter().find_map(|busy| search(busy).fewest(&all));
    found.unwrap_or(all).into_iter().collect()
}

/// A search for the best set of nodes.
struct Search<'a> {
    need: ProgramNeed,
    offers: &'a BTreeMap<NodeId, NodeOffer>,
    topology: &'a Topology,
    /// CPUs count even if they are busy.
    counts_busy: bool,
}

/// The smaller the better: distances, then idle CPUs, then free memory, then the ids.
type Rank = (u64, Reverse<u64>, Reverse<u64>, Vec<NodeId>);

impl Search<'_> {
    /// Returns the best of the smallest sets that suffice; `None` if all nodes do not.
    fn fewest(&self, all: &[NodeId]) -> Option<Vec<NodeId>> {
        if !self.suffice(all) {
            return None;
        }
        for size in 1..=all.len() {
            if sets_of(all.len(), size) > SETS_MAX {
                return self.grown(all);
            }
            let mut best: Option<Rank> = None;
            for_each_set(all, size, &mut Vec::new(), &mut |set| self.enter(set, &mut best));
            if let Some((.., set)) = best {
                return Some(set);
            }
        }
        None
    }

    /// Returns the best of the sets that grow from one node by its nearest neighbours. These need
    /// not be the smallest.
    fn grown(&self, all: &[NodeId]) -> Option<Vec<NodeId>> {
        let grow = |&seed: &NodeId| {
            let others = self.topology.nearest_nodes(seed);
            let mut set = vec![seed];
            let mut others = others.into_iter().filter(|node| self.offers.contains_key(node));
            while !self.suffice(&set) {
                set.push(others.next()?);
            }
            set.sort_unstable();
            Some((set.len(), self.rank(&set)))
        };
        all.iter().filter_map(grow).min().map(|(_, (.., set))| set)
    }

    fn enter(&self, set: &[NodeId], best: &mut Option<Rank>) {
        if self.suffice(set) {
            let rank = self.rank(set);
            if best.as_ref().is_none_or(|best| rank < *best) {
                *best = Some(rank);
            }
        }
    }

    fn suffice(&self, set: &[NodeId]) -> bool {
        let cpus_ppm = |offer: &NodeOffer| match self.counts_busy {
            true => u64::from(offer.cpus) * 1_000_000,
            false => offer.idle_ppm,
        };
        self.sum(set, cpus_ppm) >= u64::from(self.need.cpus) * 1_000_000
            && self.sum(set, |offer| offer.free_bytes) >= self.need.bytes
    }

    fn rank(&self, set: &[NodeId]) -> Rank {
        let distance = |from, to| self.topology.distance(from, to).unwrap_or(UNKNOWN_DISTANCE);
        let pairs = set.iter().flat_map(|&from| set.iter().map(move |&to| (from, to)));
        let apart = pairs.map(|(from, to)| u64::from(distance(from, to))).sum();
        let idle = self.sum(set, |offer| offer.idle_ppm);
        let free = self.sum(set, |offer| offer.free_bytes);
        (apart, Reverse(idle), Reverse(free), set.to_vec())
    }

    fn sum(&self, set: &[NodeId], of: impl Fn(&NodeOffer) -> u64) -> u64 {
        let offers = set.iter().filter_map(|node| self.offers.get(node));
        offers.map(of).fold(0, u64::saturating_add)
    }
}

/// Returns the number of sets of `size` of `all` nodes, as far as it is not far above the limit.
fn sets_of(all: usize, size: usize) -> u128 {
    let size = size.min(all - size);
    let mut sets: u128 = 1;
    for chosen in 0..size {
        sets = sets * (all - chosen) as u128 / (chosen as u128 + 1);
        if sets > SETS_MAX {
            break;
        }
    }
    sets
}

/// Calls `each` with every set of `size` more of these nodes added to `set`.
fn for_each_set(
    nodes: &[NodeId],
    size: usize,
    set: &mut Vec<NodeId>,
    each: &mut impl FnMut(&[NodeId]),
) {
    if size == 0 {
        return each(set);
    }
    for first in 0..=nodes.len() - size {
        set.push(nodes[first]);
        for_each_set(&nodes[first + 1..], size - 1, set, each);
        set.pop();
    }
}

#[cfg(test)]
mod tests {
    use nodeward_model::Synthetic;
    use proptest::prelude::*;

    use super::*;

    const GIB: u64 = 1 << 30;

    fn machine(nodes: usize) -> Topology {
        format!("{nodes}n 4c 1t 8GiB").parse::<Synthetic>().unwrap().topology()
    }

    /// Offers of nodes with 4 CPUs: idle thousandths of a CPU, and free GiB.
    fn offers(nodes: &[(u64, u64)]) -> BTreeMap<NodeId, NodeOffer> {
        let offer = |&(idle, gib): &(u64, u64)| NodeOffer {
            cpus: 4,
            idle_ppm: idle * 1000,
            free_bytes: gib * GIB,
        };
        (0..).map(NodeId).zip(nodes.iter().map(offer)).collect()
    }

    fn advice(nodes: &[(u64, u64)], cpus: u32, gib: u64) -> String {
        let need = ProgramNeed { cpus, bytes: gib * GIB };
        nodes_for(need, &offers(nodes), &machine(nodes.len())).to_string()
    }

    /// Goal: one node is enough if it has CPUs and memory, the idlest of those; else two.
    #[test]
    fn the_fewest_nodes() {
        let nodes = [(4000, 1), (3000, 8), (3500, 8)];
        assert_eq!(advice(&nodes, 3, 4), "2", "0 lacks memory, 2 is idler than 1");
        assert_eq!(advice(&nodes, 4, 0), "0");
        assert_eq!(advice(&nodes, 6, 9), "0,2", "7.5 idle CPUs and 9 GiB, the most idle of pairs");
    }

    /// Goal: busy CPUs count if there are not enough idle ones; and what fits nowhere gets all.
    #[test]
    fn busy_and_full_machines() {
        assert_eq!(advice(&[(100, 8), (200, 8)], 2, 4), "1", "busy both, 1 a little less");
        assert_eq!(advice(&[(4000, 1), (4000, 1)], 2, 4), "0-1", "no memory");
        assert_eq!(advice(&[(4000, 8), (4000, 8)], 99, 4), "0-1", "not so many CPUs");
        assert_eq!(nodes_for(ProgramNeed { cpus: 1, bytes: 1 }, &[].into(), &machine(1)).len(), 0);
    }

    /// Goal: of sets of two nodes the one that is nearest to each other.
    #[test]
    fn the_nearest_nodes() {
        let mut topology = machine(4);
        let rows = [10, 30, 30, 30, 30, 10, 30, 15, 30, 30, 10, 30, 30, 15, 30, 10];
        let rows = rows.chunks(4).map(<[u32]>::to_vec);
        let ids = (0..4).map(NodeId);
        topology.distances = nodeward_model::topology::Distances::new(ids, rows.collect()).ok();
        let need = ProgramNeed { cpus: 8, bytes: 0 };
        let nodes = nodes_for(need, &offers(&[(4000, 8); 4]), &topology);
        assert_eq!(nodes.to_string(), "1,3");
    }

    /// Goal: on a machine too large for all sets, neighbours are taken: 100 of 400 CPUs are 25 of
    /// 100 nodes.
    #[test]
    fn many_nodes() {
        let need = ProgramNeed { cpus: 100, bytes: 0 };
        let nodes = nodes_for(need, &offers(&[(4000, 8); 100]), &machine(100));
        assert_eq!(nodes.len(), 25);
    }

    proptest! {
        /// Goal: what is advised suffices whenever all nodes do, and no node of it is for nothing.
        #[test]
        fn advice_suffices(
            nodes in proptest::collection::vec((0_u64..4001, 0_u64..9), 1..9),
            cpus in 1_u32..12,
            gib in 0_u64..20,
        ) {
            let (offers, topology) = (offers(&nodes), machine(nodes.len()));
            let need = ProgramNeed { cpus, bytes: gib * GIB };
            let set: Vec<_> = nodes_for(need, &offers, &topology).iter().collect();
            let all: Vec<_> = offers.keys().copied().collect();
            let search =
                |counts_busy| Search { need, offers: &offers, topology: &topology, counts_busy };
            if search(false).suffice(&all) {
                prop_assert!(search(false).suffice(&set));
                for left_out in 0..set.len() {
                    let mut fewer = set.clone();
                    fewer.remove(left_out);
                    prop_assert!(fewer.is_empty() || !search(false).suffice(&fewer));
                }
            }
        }
    }
}
