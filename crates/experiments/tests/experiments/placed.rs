//! Programs wider than a node, whose pages are placed by samples of registers, or one by one where
//! the machine counts accesses to pages.

use nodeward_experiments::compare::{BalancerKind, CompareCase, CompareOutcome, Requirement, run};

/// 16 threads on two nodes of eight CPUs, each with its part of 2 GiB, which is placed at random.
const WIDE: CompareCase<'static> = CompareCase {
    name: "wide",
    about: "",
    scenario: "balance-wide",
    overrides: &[("workload.wide.memory", "2GiB"), ("time", "22s")],
    requirement: Requirement::PagesPlaced,
    with_patches: false,
};
/// A counter for each page.
const COUNTED: CompareCase<'static> = CompareCase {
    overrides: &[
        ("workload.wide.memory", "2GiB"),
        ("time", "22s"),
        ("machine.counter-entries", "524288"),
    ],
    ..WIDE
};
/// The same threads use all of 2 GiB alike, which is on one node.
const ALIKE: CompareCase<'static> = CompareCase {
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

/// Goal: so they do where a clock samples registers and nothing counts.
#[test]
fn sampled_pages_go_to_their_threads() {
    let outcome = run_under_nodeward(&WIDE);
    assert!(outcome.local_milli >= 990, "{outcome:?}");
    assert!((262_144..=262_144 * 21 / 20).contains(&outcome.pages), "{}", outcome.pages);
}

/// Goal: memory that all nodes use alike stays where it is, whatever a short time seems to say.
#[test]
fn nothing_moves_without_evidence() {
    let sampled = CompareCase { overrides: &ALIKE.overrides[..2], ..ALIKE };
    assert_eq!(run_under_nodeward(&sampled).pages, 0);
    assert_eq!(run_under_nodeward(&ALIKE).pages, 0);
}

/// Smaller: the parts of a program's threads, 64 MiB each, which are bound.
const PARTS: CompareCase<'static> = CompareCase {
    scenario: "balance-parts",
    overrides: &[("workload.parts.memory", "1GiB"), ("time", "22s")],
    ..WIDE
};
/// The same with pages that are scattered, counted.
const BOUND: CompareCase<'static> = CompareCase {
    scenario: "balance-bound",
    overrides: &[
        ("workload.bound.memory", "1GiB"),
        ("time", "22s"),
        ("machine.counter-entries", "524288"),
    ],
    ..WIDE
};

/// Goal: threads that are bound to CPUs of both nodes get their parts, and nothing else moves: half
/// of the 262,144 pages, which lie on node 0, are used by threads of node 1.
#[test]
fn parts_go_to_bound_threads() {
    let outcome = run_under_nodeward(&PARTS);
    assert!(outcome.local_milli >= 990, "{outcome:?}");
    assert!((131_072..=131_072 * 21 / 20).contains(&outcome.pages), "{}", outcome.pages);
}

/// Goal: of pages that are scattered all over memory, each goes to the thread that uses it most, as
/// if somebody who knows that had done so. Of eight accesses seven are the thread's own, and of the
/// eighth half are near: 93.75 % is the most there is.
#[test]
fn scattered_pages_go_to_bound_threads() {
    let outcome = run_under_nodeward(&BOUND);
    let by_hand = run(&BOUND, BalancerKind::Hand, None).expect("a scenario that runs");
    assert!((900..=938).contains(&by_hand.local_milli), "{by_hand:?}");
    assert!(outcome.local_milli >= by_hand.local_milli - 20, "{outcome:?}, {by_hand:?}");
    assert!((131_072 * 19 / 20..=131_072 * 21 / 20).contains(&outcome.pages), "{}", outcome.pages);
}
