//! Checks the accuracy of surveys. On layouts made to mislead it, the estimate must be within two
//! points of the truth, for every node, in at least 94 % of the seeds: 500, or as many as
//! `NODEWARD_COVERAGE_SEEDS` says.
//!
//! The truth is known because the layouts are formulas. The last line printed is the smallest part
//! of seeds within that limit, as JSON, for SPEC.

use std::collections::BTreeMap;

use nodeward_model::{NodeId, PageLocation, Range};
use nodeward_policy::sampling::{ResidencySampler, SamplingGoal, SamplingStep, SplitMix64};

const SEEDS: u64 = 500;
const PAGE: u64 = 4096;

/// A line of pages, and the place of each page `i`.
struct PageLayout {
    name: &'static str,
    pages: u64,
    can_scan: bool,
    location: fn(u64) -> PageLocation,
}

fn on(node: u64) -> PageLocation {
    PageLocation::On(NodeId(u32::try_from(node).unwrap()))
}

/// Returns true if a page belongs to a pseudo-random part of `permille`, which is fixed.
fn odd(page: u64, permille: u64) -> bool {
    SplitMix64::new(page).next_u64() % 1000 < permille
}

const LAYOUTS: &[PageLayout] = &[
    PageLayout { name: "one-node", pages: 1 << 21, can_scan: true, location: |_| on(0) },
    PageLayout { name: "halves", pages: 1 << 21, can_scan: true, location: |i| on(i >> 20) },
    PageLayout { name: "interleave-2", pages: 1 << 21, can_scan: true, location: |i| on(i % 2) },
    PageLayout { name: "interleave-3", pages: 3 << 19, can_scan: true, location: |i| on(i % 3) },
    PageLayout { name: "interleave-8", pages: 1 << 21, can_scan: true, location: |i| on(i % 8) },
    PageLayout {
        name: "blocks-2MiB",
        pages: 1 << 21,
        can_scan: true,
        location: |i| on((i >> 9) % 2),
    },
    PageLayout {
        name: "coin",
        pages: 1 << 21,
        can_scan: true,
        location: |i| on(odd(i, 500).into()),
    },
    PageLayout {
        name: "99-1",
        pages: 1 << 21,
        can_scan: true,
        location: |i| on(odd(i, 10).into()),
    },
    PageLayout {
        name: "97-3",
        pages: 1 << 21,
        can_scan: true,
        location: |i| on(odd(i, 30).into()),
    },
    PageLayout {
        name: "90-10",
        pages: 1 << 21,
        can_scan: true,
        location: |i| on(odd(i, 100).into()),
    },
    PageLayout {
        name: "small-coin",
        pages: 3000,
        can_scan: true,
        location: |i| on(odd(i, 450).into()),
    },
    PageLayout { name: "sparse-blocks", pages: 1 << 20, can_scan: false, location: sparse_blocks },
    PageLayout { name: "sparse-thin-node", pages: 1 << 20, can_scan: false, location: thin_node },
    PageLayout { name: "sparse-scanned", pages: 1 << 26, can_scan: true, location: far_apart },
    PageLayout { name: "sparse-cluster", pages: 1 << 26, can_scan: false, location: cluster },
    PageLayout { name: "sparse-unscanned", pages: 1 << 22, can_scan: false, location: one_in_64 },
];

/// One block of 512 in 16 is present; its node is random per block.
fn sparse_blocks(i: u64) -> PageLocation {
    let block = i >> 9;
    if block.is_multiple_of(16) { on(odd(block, 400).into()) } else { PageLocation::Absent }
}

/// The first quarter is dense and on node 0; of the rest one page in 8 is present, on node 1: the
/// thinly probed part holds all pages of the other node.
fn thin_node(i: u64) -> PageLocation {
    match (i < 1 << 18, i.is_multiple_of(8)) {
        (true, _) => on(0),
        (false, true) => on(1),
        (false, false) => PageLocation::Absent,
    }
}

/// 256 GiB of addresses with 1 GiB in blocks of 2 MiB, one in 256; a third on node 1.
fn far_apart(i: u64) -> PageLocation {
    let block = i >> 9;
    match block.is_multiple_of(256) {
        true => on(u64::from((block >> 8).is_multiple_of(3))),
        false => PageLocation::Absent,
    }
}

/// 1 GiB in one piece somewhere in 256 GiB, in slices of 64 MiB alternating between two nodes.
fn cluster(i: u64) -> PageLocation {
    match (i >> 18) == 77 {
        true => on((i >> 14) % 2),
        false => PageLocation::Absent,
    }
}

fn one_in_64(i: u64) -> PageLocation {
    if odd(i, 16) { on(i / 64 % 2) } else { PageLocation::Absent }
}

/// Returns the populated ranges of a layout, as a kernel would list them, and its pages per node.
fn truth(layout: &PageLayout) -> (Vec<Range>, BTreeMap<NodeId, u64>) {
    let mut ranges: Vec<Range> = Vec::new();
    let mut nodes = BTreeMap::new();
    for i in 0..layout.pages {
        let PageLocation::On(node) = (layout.location)(i) else { continue };
        *nodes.entry(node).or_default() += 1;
        match ranges.last_mut() {
            Some(last) if last.end == i * PAGE => last.end += PAGE,
            _ => ranges.push(Range::new(i * PAGE, (i + 1) * PAGE)),
        }
    }
    (ranges, nodes)
}

/// Returns the largest error of a share in ppm, and the number of probes.
fn error(
    layout: &PageLayout,
    truth: &(Vec<Range>, BTreeMap<NodeId, u64>),
    seed: u64,
) -> (u64, u64) {
    let goal = SamplingGoal { can_scan: layout.can_scan, ..SamplingGoal::default() };
    let mut survey =
        ResidencySampler::new(vec![Range::new(0, layout.pages * PAGE)], PAGE, goal, seed);
    loop {
        match survey.next_step() {
            SamplingStep::Probe(addresses) => {
                let places: Vec<_> =
                    addresses.iter().map(|a| (layout.location)(a / PAGE)).collect();
                survey.record(&places);
            }
            SamplingStep::Scan(_) => survey.restrict_to_populated(truth.0.clone()),
            SamplingStep::Done(_) => break,
        }
    }
    let estimate = survey.estimate();
    let whole: u64 = truth.1.values().sum();
    let errors = truth.1.iter().map(|(node, pages)| {
        let seen = estimate.nodes.get(node).map_or(0, |known| known.share.ppm);
        seen.abs_diff(pages * 1_000_000 / whole)
    });
    (errors.max().unwrap(), survey.probes())
}

/// Returns the number of seeds within the limit on a layout, and the average number of probes.
fn kept(layout: &PageLayout, seeds: u64) -> (u64, u64) {
    let truth = truth(layout);
    let runs: Vec<_> = (0..seeds).map(|seed| error(layout, &truth, seed)).collect();
    let kept = runs.iter().filter(|(error, _)| *error <= 20_000).count() as u64;
    (kept, runs.iter().map(|(_, probes)| probes).sum::<u64>() / seeds)
}

#[test]
fn answers_lie_within_two_points_of_the_truth() {
    let given = std::env::var("NODEWARD_COVERAGE_SEEDS").ok();
    let seeds = given.map_or(SEEDS, |text| text.parse().expect("a number of seeds"));
    let count = |layout| kept(layout, seeds);
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            LAYOUTS.iter().map(|layout| scope.spawn(move || count(layout))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (layout, (kept, probes)) in LAYOUTS.iter().zip(&results) {
        println!("{:<18} {kept:>4} of {seeds} seeds, {probes} probes on average", layout.name);
    }
    let worst = results.iter().map(|(kept, _)| *kept).min().unwrap();
    println!("{{\"measured\": {}, \"seeds\": {seeds}}}", worst as f64 / seeds as f64);
    // Fewer seeds are too few to tell 94 % from 90.
    let too_few = seeds < SEEDS;
    assert!(too_few || worst * 100 >= seeds * 94, "only {worst} of {seeds} are within two points");
}
