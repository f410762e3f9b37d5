//! `nodeward balance` beside the kernel's NUMA balancing (`--rivals cooperate`): no worse than the
//! kernel alone where that is good, and no worse than the better of both where they may help each
//! other.

use nodeward_experiments::compare::{BalancerKind, CompareCase, CompareOutcome, Requirement, run};

const SIDES: CompareCase = CompareCase {
    name: "sides",
    about: "",
    scenario: "balance-sides",
    overrides: &[],
    requirement: Requirement::WorkOnly,
    with_patches: false,
};
const WIDE: CompareCase = CompareCase {
    scenario: "balance-wide",
    overrides: &[("workload.wide.memory", "2GiB"), ("time", "22s")],
    ..SIDES
};
/// 48 programs, two for each CPU, half of the memory of each on either node.
const SPLIT: CompareCase = CompareCase {
    scenario: "balance-2012",
    overrides: &[("workload.stream.place", "left:0-1"), ("time", "30s")],
    ..SIDES
};

fn run_under(case: &CompareCase, by: BalancerKind) -> CompareOutcome {
    run(case, by, None).expect("a scenario that runs")
}

/// Goal: load that changes sides, and a program wider than a node, do at least 95 % of the work
/// that they do under the kernel alone, with at most 5 % more pages. (Acting as if the kernel did
/// not balance moves 2.1 times as many where load changes sides.)
#[test]
fn the_kernel_is_not_hindered() {
    for case in [&SIDES, &WIDE] {
        let alone = run_under(case, BalancerKind::Kernel);
        let both = run_under(case, BalancerKind::Cooperating);
        let scenario = case.scenario;
        assert!(both.work_milli(&alone) >= 950, "{scenario}: {}", both.work_milli(&alone));
        assert!(both.pages * 100 <= alone.pages * 105, "{scenario}: {}", both.pages);
    }
}

/// Goal: with half of their memory on either node, programs are within 5 % of the better of kernel
/// and nodeward alone, in local accesses at the end and in work.
#[test]
fn split_memory_is_within_five_percent_of_the_better() {
    let [kernel, ours] =
        [BalancerKind::Kernel, BalancerKind::Nodeward].map(|by| run_under(&SPLIT, by));
    let both = run_under(&SPLIT, BalancerKind::Cooperating);
    let local = kernel.local_milli.max(ours.local_milli);
    assert!(both.local_milli * 100 >= local * 95, "{} of {local}", both.local_milli);
    for alone in [kernel, ours] {
        assert!(both.work_milli(&alone) >= 950, "{}", both.work_milli(&alone));
    }
}
