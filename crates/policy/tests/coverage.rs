//! Checks the accuracy of surveys. On layouts made to mislead it, the estimate must be within two
//! points of the truth, for every node, in at least 94 % of 1000 seeds.
//!
//! The truth is known because the layouts are formulas. The last line printed is the smallest part
//! of seeds within that limit, as JSON, for SPEC.

use std::collections::BTreeMap;

use nodeward_model::{NodeId, Place, Range};
use nodeward_policy::sampling::{Goal, Step, Stream, Survey};

const SEEDS: u64 = 1000;
/// The number of seeds of a smoke run (`NODEWARD_SPEC_SMOKE`).
const SEEDS_SMOKE: u64 = 100;
const PAGE: u64 = 4096;

/// A line of pages, and the place of each page `i`.
struct Layout {
    name: &'static str,
    pages: u64,
    can_scan: bool,
    place: fn(u64) -> Place,
}

fn on(node: u64) -> Place {
    Place::On(NodeId(u32::try_from(node).unwrap()))
}

/// Returns true if a page belongs to a pseudo-random part of `permille`, which is fixed.
fn odd(page: u64, permille: u64) -> bool {
    Stream::new(page).next_value() % 1000 < permille
}

const LAYOUTS: &[Layout] = &[
    Layout { name: "one-node", pages: 1 << 21, can_scan: true, place: |_| on(0) },
    Layout { name: "halves", pages: 1 << 21, can_scan: true, place: |i| on(i >> 20) },
    Layout { name: "interleave-2", pages: 1 << 21, can_scan: true, place: |i| on(i % 2) },
    Layout { name: "interleave-3", pages: 3 << 19, can_scan: true, place: |i| on(i % 3) },
    Layout { name: "interleave-8", pages: 1 << 21, can_scan: true, place: |i| on(i % 8) },
    Layout { name: "blocks-2MiB", pages: 1 << 21, can_scan: true, place: |i| on((i >> 9) % 2) },
    Layout { name: "coin", pages: 1 << 21, can_scan: true, place: |i| on(odd(i, 500).into()) },
    Layout { name: "99-1", pages: 1 << 21, can_scan: true, place: |i| on(odd(i, 10).into()) },
    Layout { name: "97-3", pages: 1 << 21, can_scan: true, place: |i| on(odd(i, 30).into()) },
    Layout { name: "90-10", pages: 1 << 21, can_scan: true, place: |i| on(odd(i, 100).into()) },
    Layout { name: "small-coin", pages: 3000, can_scan: true, place: |i| on(odd(i, 450).into()) },
    Layout { name: "sparse-blocks", pages: 1 << 20, can_scan: false, place: sparse_blocks },
    Layout { name: "sparse-thin-node", pages: 1 << 20, can_scan: false, place: thin_node },
    Layout { name: "sparse-scanned", pages: 1 << 26, can_scan: true, place: far_apart },
    Layout { name: "sparse-cluster", pages: 1 << 26, can_scan: false, place: cluster },
    Layout { name: "sparse-unscanned", pages: 1 << 22, can_scan: false, place: one_in_64 },
];

/// One block of 512 in 16 is present; its node is random per block.
fn sparse_blocks(i: u64) -> Place {
    let block = i >> 9;
    if block.is_multiple_of(16) { on(odd(block, 400).into()) } else { Place::Absent }
}

/// The first quarter is dense and on node 0; of the rest one page in 8 is present, on node 1: the
/// thinly probed part holds all pages of the other node.
fn thin_node(i: u64) -> Place {
    match (i < 1 << 18, i.is_multiple_of(8)) {
        (true, _) => on(0),
        (false, true) => on(1),
        (false, false) => Place::Absent,
    }
}

/// 256 GiB of addresses with 1 GiB in blocks of 2 MiB, one in 256; a third on node 1.
fn far_apart(i: u64) -> Place {
    let block = i >> 9;
    match block.is_multiple_of(256) {
        true => on(u64::from((block >> 8).is_multiple_of(3))),
        false => Place::Absent,
    }
}

/// 1 GiB in one piece somewhere in 256 GiB, in slices of 64 MiB alternating between two nodes.
fn cluster(i: u64) -> Place {
    match (i >> 18) == 77 {
        true => on((i >> 14) % 2),
        false => Place::Absent,
    }
}

fn one_in_64(i: u64) -> Place {
    if odd(i, 16) { on(i / 64 % 2) } else { Place::Absent }
}

/// Returns the populated ranges of a layout, as a kernel would list them, and its pages per node.
fn truth(layout: &Layout) -> (Vec<Range>, BTreeMap<NodeId, u64>) {
    let mut ranges: Vec<Range> = Vec::new();
    let mut nodes = BTreeMap::new();
    for i in 0..layout.pages {
        let Place::On(node) = (layout.place)(i) else { continue };
        *nodes.entry(node).or_default() += 1;
        match ranges.last_mut() {
            Some(last) if last.end == i * PAGE => last.end += PAGE,
            _ => ranges.push(Range::new(i * PAGE, (i + 1) * PAGE)),
        }
    }
    (ranges, nodes)
}

/// Returns the largest error of a share in ppm, and the number of probes.
fn error(layout: &Layout, truth: &(Vec<Range>, BTreeMap<NodeId, u64>), seed: u64) -> (u64, u64) {
    let goal = Goal { can_scan: layout.can_scan, ..Goal::default() };
    let mut survey = Survey::new(vec![Range::new(0, layout.pages * PAGE)], PAGE, goal, seed);
    loop {
        match survey.next_step() {
            Step::Probe(addresses) => {
                let places: Vec<_> = addresses.iter().map(|a| (layout.place)(a / PAGE)).collect();
                survey.note(&places);
            }
            Step::Scan(_) => survey.lay_again(truth.0.clone()),
            Step::Done(_) => break,
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
fn kept(layout: &Layout, seeds: u64) -> (u64, u64) {
    let truth = truth(layout);
    let runs: Vec<_> = (0..seeds).map(|seed| error(layout, &truth, seed)).collect();
    let kept = runs.iter().filter(|(error, _)| *error <= 20_000).count() as u64;
    (kept, runs.iter().map(|(_, probes)| probes).sum::<u64>() / seeds)
}

#[test]
fn answers_lie_within_two_points_of_the_truth() {
    let smoke = std::env::var_os("NODEWARD_SPEC_SMOKE").is_some_and(|set| set == "1");
    let seeds = if smoke { SEEDS_SMOKE } else { SEEDS };
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
    assert!(smoke || worst * 100 >= seeds * 94, "only {worst} of {seeds} seeds within two points");
}
