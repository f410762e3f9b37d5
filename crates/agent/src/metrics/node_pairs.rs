//! Memory by pairs of nodes, in a bounded number of series: pairs grow with the square of nodes.
//! Machines of up to four nodes have all pairs; on larger ones a part is summed up.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use nodeward_model::{NodeId, Nodemask};
use nodeward_mover::PageFlows;

/// Base pages that are elsewhere than they belong, by node and home.
pub type MisplacedPages = BTreeMap<(NodeId, String), u64>;

/// The labels of a pair, and its base pages.
type LabeledPages = ([String; 2], u64);

/// Pairs of nodes between which memory moved, each with a series of its own: all of four nodes.
const FLOWS_MAX: usize = 4 * 3;
/// Pairs of a node and a home, likewise; homes are the three other nodes, or several.
const MISPLACED_MAX: usize = 4 * 4;

/// The source of memory of which only the destination is told.
const ANY: &str = "any";
/// The node and the home of all other pairs.
const OTHER: &str = "other";

/// Returns base pages by node, of nodes that are not those where they belong; none if they belong
/// anywhere, as `belongs` is empty then.
pub fn away<'a>(
    belongs: &'a Nodemask,
    pages: &'a BTreeMap<NodeId, u64>,
) -> impl Iterator<Item = (NodeId, u64)> + 'a {
    let all = pages.iter().map(|(&node, &pages)| (node, pages));
    all.filter(|&(node, pages)| pages > 0 && !belongs.is_empty() && !belongs.contains(node))
}

/// Returns flows by pair of nodes, or by destination once there are too many pairs. They only grow,
/// and so does their number: no counter falls, and what was summed up once stays so.
pub fn flows(flows: &PageFlows) -> Vec<LabeledPages> {
    if flows.len() <= FLOWS_MAX {
        let sample = |(&(from, to), &pages): (&(NodeId, NodeId), &u64)| {
            ([from.to_string(), to.to_string()], pages)
        };
        return flows.iter().map(sample).collect();
    }
    let mut arrived: BTreeMap<NodeId, u64> = BTreeMap::new();
    for (&(_, to), pages) in flows {
        *arrived.entry(to).or_default() += pages;
    }
    arrived.iter().map(|(to, &pages)| ([ANY.to_owned(), to.to_string()], pages)).collect()
}

/// Returns the pairs with most memory, in their order, and what is left of the others as one. A
/// gauge may fall, so these may be others each time.
pub fn largest(misplaced: &MisplacedPages) -> Vec<LabeledPages> {
    let mut by_size: Vec<_> = misplaced.iter().collect();
    by_size.sort_by_key(|(pair, pages)| (Reverse(**pages), *pair));
    let rest = by_size.split_off(by_size.len().min(MISPLACED_MAX));
    by_size.sort();
    let sample = |((node, home), &pages): (&(NodeId, String), &u64)| {
        ([node.to_string(), home.clone()], pages)
    };
    let mut samples: Vec<LabeledPages> = by_size.into_iter().map(sample).collect();
    if !rest.is_empty() {
        let pages = rest.into_iter().map(|(_, pages)| pages).sum();
        samples.push(([OTHER; 2].map(str::to_owned), pages));
    }
    samples
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Pages between the nodes of pairs of numbers.
    fn page_flows(pages: &BTreeMap<(u32, u32), u64>) -> PageFlows {
        pages.iter().map(|(&(from, to), &pages)| ((NodeId(from), NodeId(to)), pages)).collect()
    }

    fn sum(samples: &[LabeledPages]) -> u64 {
        samples.iter().map(|(_, pages)| pages).sum()
    }

    proptest! {
        /// Goal: while flows grow on 16 nodes, no series of a pair or a destination falls, there
        /// are at most 16 (12 pairs, or 16 destinations), and their sum is that of all flows.
        #[test]
        fn no_counter_falls(
            moves in proptest::collection::vec(((0_u32..16, 0_u32..16), 1_u64..1000), 0..60)
        ) {
            let mut pages: BTreeMap<(u32, u32), u64> = BTreeMap::new();
            let mut before: BTreeMap<[String; 2], u64> = BTreeMap::new();
            for (pair, moved) in moves {
                *pages.entry(pair).or_default() += moved;
                let samples = flows(&page_flows(&pages));
                prop_assert!(samples.len() <= 16, "{samples:?}");
                prop_assert_eq!(sum(&samples), pages.values().sum::<u64>());
                let now: BTreeMap<_, _> = samples.into_iter().collect();
                for (labels, was) in &before {
                    prop_assert!(now.get(labels).is_none_or(|is| is >= was), "{:?}", labels);
                }
                before.extend(now);
            }
        }

        /// Goal: of misplaced memory at most 17 series are left, with the sum of all; those with
        /// labels of their own have what they had, and no other pair has more than any of them.
        #[test]
        fn the_largest_are_told(
            pages in proptest::collection::btree_map((0_u32..8, 0_u32..8), 1_u64..50, 0..64)
        ) {
            let home = |home: u32| if home == 0 { "several".to_owned() } else { home.to_string() };
            let pair = |(&(node, at), &pages): (&(u32, u32), &u64)| {
                ((NodeId(node), home(at)), pages)
            };
            let misplaced: MisplacedPages = pages.iter().map(pair).collect();
            let samples = largest(&misplaced);
            prop_assert!(samples.len() <= MISPLACED_MAX + 1);
            prop_assert_eq!(sum(&samples), pages.values().sum::<u64>());
            let told: BTreeMap<_, _> = samples.into_iter().collect();
            let of = |(node, home): &(NodeId, String)| told.get(&[node.to_string(), home.clone()]);
            let own = misplaced.iter().filter_map(|(pair, pages)| Some((of(pair)?, pages)));
            let least = own.clone().map(|(_, pages)| *pages).min().unwrap_or(u64::MAX);
            prop_assert!(own.clone().all(|(told, pages)| told == pages));
            let mut others = misplaced.iter().filter(|(pair, _)| of(pair).is_none());
            prop_assert!(others.all(|(_, pages)| *pages <= least));
        }
    }

    /// Goal: on four nodes all pairs keep their labels: 12 flows, and 16 of nodes and homes.
    #[test]
    fn four_nodes_have_all_pairs() {
        let nodes = || (0..4).map(NodeId);
        let pairs = nodes().flat_map(|from| nodes().map(move |to| (from, to)));
        let pairs: Vec<_> = pairs.filter(|(from, to)| from != to).collect();
        let told = flows(&pairs.iter().map(|&pair| (pair, 1)).collect());
        assert_eq!((told.len(), sum(&told)), (12, 12));
        assert!(told.iter().all(|([from, _], _)| from != ANY), "{told:?}");
        let several = nodes().map(|node| (node, "several".to_owned()));
        let homes = pairs.iter().map(|(node, home)| (*node, home.to_string())).chain(several);
        let told = largest(&homes.map(|pair| (pair, 1)).collect());
        assert_eq!((told.len(), sum(&told)), (16, 16));
        assert!(told.iter().all(|([node, _], _)| node != OTHER), "{told:?}");
    }
}
