//! Programs wider than a node, whose pages are placed one by one where the machine counts accesses
//! to pages.

use nodeward_experiments::compare::{BalancerKind, CompareCase, CompareOutcome, Requirement, run};

/// 16 threads on two nodes of eight CPUs, each with its part of 2 GiB, which is placed at random.
const WIDE: CompareCase = CompareCase {
    name: "wide",
    about: "",
    scenario: "balance-wide",
    overrides: &[("workload.wide.memory", "2GiB"), ("time", "22s")],
    requirement: Requirement::PagesPlaced,
    with_patches: false,
};
/// A counter for each page.
const COUNTED: CompareCase = CompareCase {
    overrides: &[
        ("workload.wide.memory", "2GiB"),
        ("time", "22s"),
        ("machine.counter-entries", "524288"),
    ],
    ..WIDE
};
/// The same threads use all of 2 GiB alike, which is on one node.
const ALIKE: CompareCase = CompareCase {
    scenario: "balance-shared",
    overrides: &[
        ("workload.shared.memory", "2GiB"),
        ("time", "22s"),
        ("machine.counter-entries", "524288"),
    ],
    ..WIDE
};

fn run_under_nodeward(case: &CompareCase) -> CompareOutcome {
    run(case, BalancerKind::Nodeward, None).expect("a scenario that runs")
}

/// Goal: each page moves to the thread that uses it, and the thread stays there: half of the
/// 524,288 pages move, a few more for threads that were away for a moment.
#[test]
fn counted_pages_go_to_their_threads() {
    let outcome = run_under_nodeward(&COUNTED);
    assert!(outcome.local_milli >= 950, "{outcome:?}");
    assert!((262_144..=262_144 * 5 / 4).contains(&outcome.pages), "{}", outcome.pages);
}

/// Goal: where nothing is counted nothing is guessed, and memory that all nodes use alike stays
/// where it is, whatever a short time seems to say.
#[test]
fn nothing_moves_without_evidence() {
    assert_eq!(run_under_nodeward(&WIDE).pages, 0);
    assert_eq!(run_under_nodeward(&ALIKE).pages, 0);
}
