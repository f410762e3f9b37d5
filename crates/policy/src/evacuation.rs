//! Destinations of an evacuation: the nodes to which the pages of a node go when all of them have
//! to leave.

use nodeward_model::{NodePairs, Nodemask, Topology};

/// Returns the passes of an evacuation. In the n-th pass each source is paired with its n-th
/// nearest destination, which takes what the destinations before it had no room for. Every source
/// meets every destination once. There is no pass if no destination is left beside the sources.
pub fn passes(topology: &Topology, sources: &Nodemask, to: &Nodemask) -> Vec<NodePairs> {
    let to = topology.node_ids().and(to).without(sources);
    let from: Vec<_> = sources.iter().collect();
    let nearest = |node| topology.nearest_nodes(node).into_iter().filter(|id| to.contains(*id));
    let by_source: Vec<Vec<_>> = from.iter().map(|&node| nearest(node).collect()).collect();
    let pass = |rank: usize| {
        let to: Vec<_> = by_source.iter().filter_map(|nodes| nodes.get(rank).copied()).collect();
        NodePairs::from_lists(&from, &to)
    };
    (0..to.len()).map(pass).filter(|pairs| !pairs.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use nodeward_model::{NodeId, Synthetic};
    use proptest::prelude::*;

    use super::*;

    fn machine(nodes: u32) -> Topology {
        format!("{nodes}n 1c 1t 1GiB").parse::<Synthetic>().unwrap().topology()
    }

    fn mask(text: &str) -> Nodemask {
        text.parse().unwrap()
    }

    fn pairs(passes: &[NodePairs]) -> Vec<Vec<(u32, u32)>> {
        let numbers = |(from, to): (NodeId, NodeId)| (from.0, to.0);
        passes.iter().map(|pass| pass.iter().map(numbers).collect()).collect()
    }

    /// Goal: nearer nodes come first; without distances the order is that of the ids.
    #[test]
    fn the_nearest_come_first() {
        let equal = machine(4);
        let passes_of = |from: &str, to: &str| pairs(&passes(&equal, &mask(from), &mask(to)));
        assert_eq!(passes_of("1", "0-3"), [[(1, 0)], [(1, 2)], [(1, 3)]]);
        assert_eq!(passes_of("1", "3"), [[(1, 3)]]);
        assert_eq!(passes_of("0-1", "0-3"), [[(0, 2), (1, 2)], [(0, 3), (1, 3)]]);
        let far: Synthetic = "2n 1c 1t 1GiB + 1n 1GiB dist:10/21".parse().unwrap();
        let nodes = |from: &str| pairs(&passes(&far.topology(), &mask(from), &mask("0-2")));
        assert_eq!(nodes("2"), [[(2, 0)], [(2, 1)]]);
    }

    /// Goal: if every node is a source, or no destination exists, there is nothing to do.
    #[test]
    fn without_a_destination_there_is_no_pass() {
        assert_eq!(passes(&machine(2), &mask("0-1"), &mask("0-1")), []);
        assert_eq!(passes(&machine(2), &mask("0"), &mask("7")), []);
    }

    proptest! {
        /// Goal: each source meets each destination once, the nearer ones first, and nothing goes
        /// to a source.
        #[test]
        fn every_source_meets_every_destination(
            nodes in 1_u32..9,
            from in proptest::collection::btree_set(0_u32..8, 1..4),
            to in proptest::collection::btree_set(0_u32..8, 0..8),
        ) {
            let topology = machine(nodes);
            let sources: Nodemask = from.iter().map(|&id| NodeId(id)).collect();
            let sources = sources.and(&topology.node_ids());
            let allowed: Nodemask = to.iter().map(|&id| NodeId(id)).collect();
            let expected = allowed.and(&topology.node_ids()).without(&sources);
            let all = passes(&topology, &sources, &allowed);
            for source in sources.iter() {
                let met: Vec<_> = all.iter().filter_map(|it| it.destination(source)).collect();
                let distinct: BTreeSet<_> = met.iter().copied().collect();
                prop_assert_eq!(distinct, expected.iter().collect::<BTreeSet<_>>());
                prop_assert_eq!(met.len() as u32, expected.len() as u32);
                let away = |node: &NodeId| topology.distance(source, *node);
                prop_assert!(met.is_sorted_by_key(away), "{:?}", met);
            }
        }
    }
}
