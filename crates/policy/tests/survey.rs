//! Goal: a survey of any memory ends, reads only the given ranges, reads no page twice within one
//! line, and knows small memory exactly.

use std::collections::BTreeSet;

use nodeward_model::{NodeId, PageLocation, Range};
use nodeward_policy::sampling::{
    ResidencySampler, SamplingEnd, SamplingGoal, SamplingStep, SplitMix64,
};
use proptest::prelude::*;

const PAGE: u64 = 4096;

/// Ranges of up to `pages_max` pages with holes between them.
fn ranges(pages_max: u64) -> impl Strategy<Value = Vec<Range>> {
    prop::collection::vec((0..50_u64, 0..pages_max), 0..6).prop_map(|parts| {
        let mut at = 16;
        let lay = |(hole, pages)| {
            let start = at + hole;
            at = start + pages;
            Range::new(start * PAGE, at * PAGE)
        };
        parts.into_iter().map(lay).collect()
    })
}

/// Page `page` is present in `permille` of cases, on one of `nodes` nodes.
fn location(page: u64, permille: u64, nodes: u32) -> PageLocation {
    let value = SplitMix64::new(page).next_u64();
    let node = u32::try_from((value >> 32) % u64::from(nodes)).unwrap();
    if value % 1000 < permille { PageLocation::On(NodeId(node)) } else { PageLocation::Absent }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn it_ends_within_its_means_and_looks_only_where_told(
        ranges in ranges(3000), permille in 0..=1000_u64, nodes in 1..5_u32, seed: u64,
    ) {
        let goal = SamplingGoal { probes_max: 4096, ..SamplingGoal::default() };
        let mut survey = ResidencySampler::new(ranges.clone(), PAGE, goal, seed);
        loop {
            match survey.next_step() {
                SamplingStep::Probe(addresses) => {
                    let unique: BTreeSet<_> = addresses.iter().collect();
                    prop_assert_eq!(unique.len(), addresses.len());
                    prop_assert!(!addresses.is_empty());
                    for at in &addresses {
                        prop_assert!(ranges.iter().any(|r| (r.start..r.end).contains(at)));
                    }
                    let places: Vec<_> =
                        addresses.iter().map(|at| location(at / PAGE, permille, nodes)).collect();
                    survey.record(&places);
                }
                SamplingStep::Scan(_) => prop_assert!(false, "the machine cannot scan"),
                SamplingStep::Done(_) => break,
            }
        }
        // A round never exceeds the limit; exploring may once be followed by 256 probes in vain.
        prop_assert!(survey.probes() <= 2 * goal.probes_max);
        let estimate = survey.estimate();
        for known in estimate.nodes.values() {
            let share = known.share;
            prop_assert!(share.low_ppm <= share.ppm && share.ppm <= share.high_ppm);
        }
        let sum: u64 = estimate.nodes.values().map(|known| known.share.ppm).sum();
        prop_assert!(estimate.nodes.is_empty() || sum.abs_diff(1_000_000) <= 4, "sum {}", sum);
    }

    #[test]
    fn small_memory_is_known_exactly(
        ranges in ranges(100), permille in 0..=1000_u64, seed: u64,
    ) {
        let pages = || ranges.iter().flat_map(|r| r.start / PAGE..r.end / PAGE);
        prop_assume!(pages().count() <= 512);
        let mut survey = ResidencySampler::new(ranges.clone(), PAGE, SamplingGoal::default(), seed);
        if let SamplingStep::Probe(addresses) = survey.next_step() {
            let location_of = |at: &u64| location(at / PAGE, permille, 3);
            let places: Vec<_> = addresses.iter().map(location_of).collect();
            survey.record(&places);
        }
        prop_assert_eq!(survey.next_step(), SamplingStep::Done(SamplingEnd::Census));
        let is_there = |page: &u64| location(*page, permille, 3) != PageLocation::Absent;
            let there = pages().filter(is_there).count();
        let estimate = survey.estimate();
        prop_assert_eq!((estimate.on_nodes, estimate.exact), (there as u64, true));
        prop_assert!(estimate.nodes.values().all(|known| known.share.half_width_ppm() == 0));
    }
}
